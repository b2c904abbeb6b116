// SPDX-License-Identifier: MIT
#include "capture/tokenizer.hpp"

#include <algorithm>
#include <limits>

#include "capture/json_access.hpp"
#include "capture/utf8.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

constexpr std::size_t max_tokenizer_bytes = std::size_t{256} << 20;

const nlohmann::json& model_object(const nlohmann::json& file) {
  require(file.is_object() && file.contains("model"), "tokenizer.json has no model");
  return file.at("model");
}

/// Calls `gap(piece)` and `token(id)` for the parts of `piece` in order, until one returns false.
template <class Gap, class Token>
bool cut_at_tokens(const added_token_finder& tokens, text_piece piece, Gap&& gap, Token&& token) {
  std::size_t from = 0;
  for (added_token_finder::match m; tokens.find(piece.text, from, &m); from = m.end) {
    if (m.begin > from && !gap(text_piece{piece.text.substr(from, m.begin - from), piece.at_start && from == 0}))
      return false;
    if (!token(m.id)) return false;
  }
  return from == piece.text.size() || gap(text_piece{piece.text.substr(from), piece.at_start && from == 0});
}

}  // namespace

tokenizer::tokenizer(const nlohmann::json& file, const nlohmann::json& config) : model_(model_object(file)) {
  const json_fields fields(file, "tokenizer.json");
  size_ = model_.size();
  normalizer_ = read_normalizer(fields.find("normalizer"));
  pre_tokenizer_ = read_pre_tokenizer(fields.find("pre_tokenizer"));
  if (const auto* added = fields.find("added_tokens")) read_added_tokens(*added);
  if (const auto* post = fields.find("post_processor")) read_post_processor(*post);
  if (!config.is_null()) apply_config(config);
}

tokenizer tokenizer::load(const std::filesystem::path& tokenizer_json) {
  const auto config = tokenizer_json.parent_path() / "tokenizer_config.json";
  return {read_json(tokenizer_json, max_tokenizer_bytes),
          std::filesystem::exists(config) ? read_json(config, max_tokenizer_bytes) : nlohmann::json()};
}

void tokenizer::read_added_tokens(const nlohmann::json& list) {
  require(list.is_array(), "tokenizer.json: added_tokens must be a list");
  for (const auto& object : list) {
    const json_fields token(object, "tokenizer.json: added_tokens");
    const std::string content = token.required_string("content");
    const auto id =
        static_cast<std::int32_t>(token.required_integer("id", 0, std::numeric_limits<std::int32_t>::max() - 1));
    require(!token.boolean("single_word").value_or(false), "tokenizer.json: added token '", content,
            "' is single_word, which is not supported");
    const added_token_finder::options strip{.strip_left = token.boolean("lstrip").value_or(false),
                                            .strip_right = token.boolean("rstrip").value_or(false)};
    const bool special = token.boolean("special").value_or(false);
    const bool normalized = token.boolean("normalized").value_or(!special);
    (normalized ? normalized_tokens_ : raw_tokens_).add(content, id, strip);
    added_.emplace_back(content, id);
    size_ = std::max<index_t>(size_, id + 1);
  }
}

void tokenizer::read_post_processor(const nlohmann::json& object) {
  const json_fields fields(object, "tokenizer.json: post_processor");
  const std::string type = fields.required_string("type");
  if (type == "ByteLevel") return;  // it moves offsets, which nobody reads here
  if (type == "TemplateProcessing") return read_template(object);
  require(type == "Sequence", "tokenizer.json: post_processor '", type,
          "' is not supported; supported: none, ByteLevel, TemplateProcessing");
  const auto* parts = fields.find("processors");
  require(parts && parts->is_array(), fields.where(), ": Sequence has no list processors");
  for (const auto& part : *parts) read_post_processor(part);
}

void tokenizer::read_template(const nlohmann::json& object) {
  const json_fields fields(object, "tokenizer.json: post_processor");
  const auto* single = fields.find("single");
  const auto specials = fields.child("special_tokens");
  require(single && single->is_array(), fields.where(), ": TemplateProcessing has no list single");
  bool before = true;
  for (const auto& item : *single) {
    const json_fields part(item, fields.where());
    if (part.find("Sequence")) {
      require(before, fields.where(), " has the text twice");
      before = false;
      continue;
    }
    const auto special = part.child("SpecialToken");
    require(special.has_value() && specials.has_value(), fields.where(), " has an item that is no token and no text");
    const std::string name = special->required_string("id");
    const auto entry = specials->child(name.c_str());
    const auto* ids = entry ? entry->find("ids") : nullptr;
    require(ids && ids->is_array(), fields.where(), " does not say which ids '", name, "' has");
    for (const auto& id : *ids) {
      require(id.is_number_integer() && id.get<index_t>() >= 0 &&
                  id.get<index_t>() < std::numeric_limits<std::int32_t>::max(),
              fields.where(), ": an id of '", name, "' is ", id.dump());
      (before ? prefix_ : suffix_).push_back(id.get<std::int32_t>());
      size_ = std::max<index_t>(size_, id.get<index_t>() + 1);
    }
  }
}

void tokenizer::apply_config(const nlohmann::json& config) {
  // transformers replaces the post-processor when the file says either of these.
  const json_fields fields(config, "tokenizer_config.json");
  const auto bos = fields.boolean("add_bos_token"), eos = fields.boolean("add_eos_token");
  if (!bos && !eos) return;
  const auto token = [&](const char* name) {
    const auto* value = fields.find(name);
    require(value, "tokenizer_config.json asks for ", name, " but does not name it");
    const std::string content =
        value->is_object() ? json_fields(*value, fields.where()).required_string("content") : *fields.string(name);
    const std::int32_t id = id_of(content);
    require(id >= 0, "tokenizer_config.json: ", name, " '", content, "' is not in the vocabulary");
    return std::vector<std::int32_t>{id};
  };
  prefix_ = bos.value_or(false) ? token("bos_token") : std::vector<std::int32_t>{};
  suffix_ = eos.value_or(false) ? token("eos_token") : std::vector<std::int32_t>{};
}

std::int32_t tokenizer::id_of(const std::string& token) const {
  for (const auto& [content, id] : added_)
    if (content == token) return id;
  return model_.find(token);
}

bool tokenizer::encode_normalized(text_piece piece, std::size_t limit, std::vector<std::int32_t>* ids) const {
  const auto word = [&](text_piece p) {
    model_.encode(p.text, ids);
    return ids->size() < limit;
  };
  const auto text = [&](text_piece p) { return run_stages(pre_tokenizer_, 0, p, word); };
  const auto token = [&](std::int32_t id) {
    ids->push_back(id);
    return ids->size() < limit;
  };
  return cut_at_tokens(normalized_tokens_, piece, text, token);
}

bool tokenizer::encode_plain(text_piece piece, std::size_t limit, std::vector<std::int32_t>* ids) const {
  return run_stages(normalizer_, 0, piece, [&](text_piece p) { return encode_normalized(p, limit, ids); });
}

std::vector<std::int32_t> tokenizer::encode(std::string_view text, index_t max_tokens) const {
  const auto around = static_cast<index_t>(prefix_.size() + suffix_.size());
  require(max_tokens >= 0, "max_tokens must be at least 0, not ", max_tokens);
  const auto limit = static_cast<std::size_t>(std::max<index_t>(0, max_tokens - around));
  const std::string clean = replace_ill_formed(text);
  std::vector<std::int32_t> content;
  if (limit > 0)
    cut_at_tokens(
        raw_tokens_, {clean, true}, [&](text_piece p) { return encode_plain(p, limit, &content); },
        [&](std::int32_t id) {
          content.push_back(id);
          return content.size() < limit;
        });
  if (content.size() > limit) content.resize(limit);
  std::vector<std::int32_t> ids = prefix_;
  ids.insert(ids.end(), content.begin(), content.end());
  ids.insert(ids.end(), suffix_.begin(), suffix_.end());
  if (static_cast<index_t>(ids.size()) > max_tokens) ids.resize(static_cast<std::size_t>(max_tokens));
  return ids;
}

}  // namespace qkgeom
