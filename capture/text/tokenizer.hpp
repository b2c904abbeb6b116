// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "capture/text/added_tokens.hpp"
#include "capture/text/bpe.hpp"
#include "capture/text/text_stage.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {

/// Largest tokenizer.json that is read, bytes.
inline constexpr std::size_t max_tokenizer_bytes = std::size_t{64} << 20;

/// Turns text into token ids as tokenizer.json describes: added tokens are cut out, normalizer, pre-tokenizer and model
/// process the rest, and the post-processor adds tokens around it. One thread at a time may use an object.
class tokenizer {
 public:
  /// Takes the content of tokenizer.json and of tokenizer_config.json (or null). Throws `error`, naming the field, on
  /// an unsupported type of normalizer, pre-tokenizer, model or post-processor.
  tokenizer(const nlohmann::json& file, const nlohmann::json& config);

  /// Reads a tokenizer.json and, if there is one, the tokenizer_config.json beside it.
  static tokenizer load(const std::filesystem::path& tokenizer_json);

  /// Encodes `text` as at most `max_tokens` ids, those of the post-processor included; the end of the text is cut.
  /// Ill-formed UTF-8 becomes U+FFFD.
  std::vector<std::int32_t> encode(std::string_view text, index_t max_tokens) const;

  /// Returns the beginning-of-text token that tokenizer_config.json names, or -1.
  std::int32_t bos() const { return bos_; }
  /// Begins every text with `token` instead of the post-processor's tokens; without a value, with no token.
  void begin_with(std::optional<std::int32_t> token);
  const std::vector<std::int32_t>& prefix() const { return prefix_; }

  /// Returns a sentence if tokenizer_config.json asks for other tokens around a text than the post-processor of
  /// tokenizer.json puts, which decides; else "".
  const std::string& contradiction() const { return contradiction_; }

  /// See bpe_model::lookups.
  std::uint64_t lookups() const { return model_.lookups(); }

  /// Returns the largest id + 1.
  index_t size() const { return size_; }

 private:
  void read_added_tokens(const nlohmann::json& list);
  void read_added_token(const json_value& token, bool special);
  void read_post_processor(const nlohmann::json& object);
  void read_template(const nlohmann::json& object);
  void apply_config(const nlohmann::json& config);
  std::int32_t id_of(const std::string& token) const;
  bool encode_plain(text_piece piece, std::size_t limit, std::vector<std::int32_t>* ids) const;
  bool encode_normalized(text_piece piece, std::size_t limit, std::vector<std::int32_t>* ids) const;

  bpe_model model_;
  text_stages normalizer_, pre_tokenizer_;
  added_token_finder raw_tokens_, normalized_tokens_;
  std::string contradiction_;
  std::vector<std::pair<std::string, std::int32_t>> added_;
  std::vector<std::int32_t> prefix_, suffix_;
  bool splits_specials_ = false;  ///< special tokens in a text are encoded as plain text
  index_t size_ = 0;
  std::int32_t bos_ = -1;
};

}  // namespace qkgeom
