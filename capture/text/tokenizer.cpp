// SPDX-License-Identifier: MIT
#include "capture/text/tokenizer.hpp"

#include <algorithm>
#include <limits>

#include "capture/text/unicode.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

// The largest tokenizers have 35 MB, and configurations 1 MB.
constexpr std::size_t max_config_bytes = std::size_t{8} << 20;

const nlohmann::json& model_object(const nlohmann::json& file) {
  require(file.is_object() && file.contains("model"), "tokenizer.json has no model");
  return file.at("model");
}

/// Appends the tokens in `piece` to `ids` and calls `gap(piece)` between them, in order, until `gap` returns false or
/// `ids` holds `limit`.
template <class Gap>
bool cut_at_tokens(const added_token_finder& tokens, text_piece piece, std::size_t limit,
                   std::vector<std::int32_t>* ids, Gap&& gap) {
  std::size_t from = 0;
  added_token_finder::cursor cursor(tokens, piece.text);
  for (added_token_finder::match m; cursor.next(&m); from = m.end) {
    if (m.begin > from && !gap(piece.part(from, m.begin))) return false;
    ids->push_back(m.id);
    if (ids->size() >= limit) return false;
  }
  return from == piece.text.size() || gap(piece.part(from, piece.text.size()));
}

}  // namespace

tokenizer::tokenizer(const nlohmann::json& file, const nlohmann::json& config) : model_(model_object(file)) {
  const json_value fields(file, "tokenizer.json");
  size_ = model_.size();
  normalizer_ = read_normalizer(fields.find("normalizer"));
  pre_tokenizer_ = read_pre_tokenizer(fields.find("pre_tokenizer"));
  if (!config.is_null())
    splits_specials_ = json_value(config, "tokenizer_config.json").boolean("split_special_tokens").value_or(false);
  if (const auto* added = fields.find("added_tokens")) read_added_tokens(*added);
  if (const auto* post = fields.find("post_processor")) read_post_processor(*post);
  if (!config.is_null()) apply_config(config);
}

tokenizer tokenizer::load(const std::filesystem::path& tokenizer_json) {
  const auto config = tokenizer_json.parent_path() / "tokenizer_config.json";
  return {read_json(tokenizer_json, max_tokenizer_bytes),
          std::filesystem::exists(config) ? read_json(config, max_config_bytes) : nlohmann::json()};
}

void tokenizer::read_added_tokens(const nlohmann::json& list) {
  require(list.is_array(), "tokenizer.json: added_tokens must be a list");
  // Specials come first: among tokens that look the same after normalization, the last one wins.
  for (const bool specials : {true, false})
    for (const auto& object : list) {
      const json_value token(object, "tokenizer.json", "added_tokens");
      if (token.boolean("special").value_or(false) == specials) read_added_token(token, specials);
    }
}

void tokenizer::read_added_token(const json_value& token, bool special) {
  const std::string content = token["content"].name();
  auto id = static_cast<std::int32_t>(token["id"].integer(0, std::numeric_limits<std::int32_t>::max() - 1));
  if (const std::int32_t known = model_.find(content); known >= 0) id = known;  // the vocabulary's id wins
  const added_token_finder::options how{.strip_left = token.boolean("lstrip").value_or(false),
                                        .strip_right = token.boolean("rstrip").value_or(false),
                                        .single_word = token.boolean("single_word").value_or(false)};
  added_.emplace_back(content, id);
  size_ = std::max<index_t>(size_, id + 1);
  if (special && splits_specials_) return;
  if (!token.boolean("normalized").value_or(!special)) return raw_tokens_.add(content, id, how);
  budget made = stage_budget(content.size());
  run_stages(normalizer_, 0, {content, 0, &made}, [&](text_piece p) {
    require(!p.text.empty(), "tokenizer.json: the normalizer leaves nothing of the added token '", printable(content),
            "'");
    normalized_tokens_.add(p.text, id, how);
    return true;
  });
}

void tokenizer::read_post_processor(const nlohmann::json& object) {
  const json_value fields(object, "tokenizer.json", "post_processor");
  const std::string type = fields["type"].string();
  if (type == "ByteLevel") return;  // it changes offsets alone, which are not used here
  if (type == "TemplateProcessing") return read_template(object);
  require(type == "Sequence", "tokenizer.json: post_processor '", printable(type),
          "' is not supported; supported: none, Sequence, ByteLevel, TemplateProcessing");
  const auto* parts = fields.find("processors");
  require(parts && parts->is_array(), fields.where(), ": Sequence has no list processors");
  for (const auto& part : *parts) read_post_processor(part);
}

void tokenizer::read_template(const nlohmann::json& object) {
  const json_value fields(object, "tokenizer.json", "post_processor");
  const auto* single = fields.find("single");
  const auto specials = fields.object("special_tokens");
  require(single && single->is_array(), fields.where(), ": TemplateProcessing has no list single");
  require(prefix_.empty() && suffix_.empty(), fields.where(),
          " has several TemplateProcessing, which is not supported");
  bool before = true;
  for (const auto& item : *single) {
    const json_value part(item, "tokenizer.json", "post_processor.single");
    if (const auto text = part.object("Sequence")) {
      require(text->string("id").value_or("A") == "A", fields.where(), " has a second text in single");
      require(before, fields.where(), " has the text twice");
      before = false;
      continue;
    }
    const auto special = part.object("SpecialToken");
    require(special.has_value() && specials.has_value(), fields.where(), " has an item that is no token and no text");
    const std::string name = (*special)["id"].string();
    const auto entry = specials->object(name.c_str());
    const auto* ids = entry ? entry->find("ids") : nullptr;
    require(ids && ids->is_array(), fields.where(), " does not say which ids '", printable(name), "' has");
    for (const auto& id : *ids) {
      require(id.is_number_integer() && id.get<index_t>() >= 0 &&
                  id.get<index_t>() < std::numeric_limits<std::int32_t>::max(),
              fields.where(), ": an id of '", printable(name), "' is ", printable(id.dump()));
      (before ? prefix_ : suffix_).push_back(id.get<std::int32_t>());
      size_ = std::max<index_t>(size_, id.get<index_t>() + 1);
    }
  }
}

void tokenizer::apply_config(const nlohmann::json& config) {
  const json_value fields(config, "tokenizer_config.json");
  const std::string side = fields.string("truncation_side").value_or("right");
  require(side == "right", "tokenizer_config.json: truncation_side '", printable(side),
          "' is not supported; supported: right");
  const auto id = [&](const char* name) {
    const auto* value = fields.find(name);
    if (!value) return -1;
    return id_of(value->is_object() ? json_value(*value, fields.where())["content"].string() : *fields.string(name));
  };
  bos_ = id("bos_token");
  // transformers 5 reads these two fields, and leaves what surrounds a text to the post-processor all the same.
  const auto compare = [&](const char* field, const char* place, std::int32_t token, const auto& around) {
    const auto asked = fields.boolean(field);
    const bool put = std::find(around.begin(), around.end(), token) != around.end();
    if (!asked || *asked == put || !contradiction_.empty()) return;
    contradiction_ = std::string("tokenizer_config.json says ") + field + (*asked ? " true" : " false") +
                     ", but the post-processor of tokenizer.json, which decides as in transformers 5, puts " +
                     (put ? "that token " : "no such token ") + place + " a text";
  };
  compare("add_bos_token", "before", bos_, prefix_);
  compare("add_eos_token", "after", id("eos_token"), suffix_);
}

void tokenizer::begin_with(std::optional<std::int32_t> token) {
  prefix_.clear();
  if (token) prefix_.push_back(*token);
}

std::int32_t tokenizer::id_of(const std::string& token) const {
  for (const auto& [content, id] : added_)
    if (content == token) return id;
  return model_.find(token);
}

bool tokenizer::encode_normalized(text_piece piece, std::size_t limit, std::vector<std::int32_t>* ids) const {
  const auto word = [&](text_piece p) {
    model_.encode(p.text, limit, ids);
    return ids->size() < limit;
  };
  return cut_at_tokens(normalized_tokens_, piece, limit, ids,
                       [&](text_piece p) { return run_stages(pre_tokenizer_, 0, p, word); });
}

bool tokenizer::encode_plain(text_piece piece, std::size_t limit, std::vector<std::int32_t>* ids) const {
  return run_stages(normalizer_, 0, piece, [&](text_piece p) { return encode_normalized(p, limit, ids); });
}

std::vector<std::int32_t> tokenizer::encode(std::string_view text, index_t max_tokens) const {
  const auto around = static_cast<index_t>(prefix_.size() + suffix_.size());
  require(max_tokens >= 0, "max_tokens must be at least 0, not ", max_tokens);
  const std::size_t limit = std::max<index_t>(0, max_tokens - around);
  const std::string clean = replace_ill_formed(text);
  std::vector<std::int32_t> content;
  budget made = stage_budget(clean.size());
  std::size_t first = 0;
  if (!clean.empty()) next_character(clean, &first);
  if (limit > 0)
    cut_at_tokens(raw_tokens_, {clean, first, &made}, limit, &content,
                  [&](text_piece p) { return encode_plain(p, limit, &content); });
  if (content.size() > limit) content.resize(limit);
  std::vector<std::int32_t> ids = prefix_;
  ids.insert(ids.end(), content.begin(), content.end());
  ids.insert(ids.end(), suffix_.begin(), suffix_.end());
  if (static_cast<index_t>(ids.size()) > max_tokens) ids.resize(max_tokens);
  return ids;
}

}  // namespace qkgeom
