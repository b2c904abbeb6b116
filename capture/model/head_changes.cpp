// SPDX-License-Identifier: MIT
#include "capture/model/head_changes.hpp"

#include <algorithm>
#include <set>

#include "qkgeom/io/file.hpp"
#include "qkgeom/io/rope_config.hpp"
#include "qkgeom/io/whole_number.hpp"

namespace qkgeom {
namespace {

constexpr index_t most_heads = 1 << 20;  // layers, or heads of one

index_t number(std::string_view text, const std::string& where) {
  const auto n = whole_number<index_t>(text);
  require(n && *n >= 0 && *n < most_heads, where, ": heads must be LAYER.HEAD, e.g. 3.12, not '", printable(text), "'");
  return *n;
}

std::vector<head_id> in_order(std::vector<head_id> heads, const std::string& where) {
  require(!heads.empty(), where, ": the list names no head");
  std::sort(heads.begin(), heads.end());
  const auto twice = std::adjacent_find(heads.begin(), heads.end());
  if (twice != heads.end()) fail(where, ": the list names layer ", twice->layer, " head ", twice->head, " twice");
  return heads;
}

/// Reads the embedding that the heads of a layer have in place of the layer's.
rope_description read_rope_change(const json_value& v, const decoder_description& model,
                                  const layer_description& layer) {
  rope_description rope = model.rope_of(layer);
  const auto known = [](const std::string& field) {
    return field == "theta" || field == "scaling" || field == "still";
  };
  bool any = v.raw().is_object() && !v.raw().empty();
  for (const auto& [field, value] : v.raw().items()) any = any && known(field);
  require(any, v.where(), ": \"rope\" has the fields \"theta\", \"scaling\" and \"still\", one or more of them");
  require(layer.rope, v.where(), ": the layer has no rotary embedding");
  require(model.qk != qk_norm::each_head_after_rotation, v.where(),
          ": the layer norms queries and keys by weights after the rotation");
  if (v.has("theta") || v.has("scaling")) {
    require(v.has("scaling") || rope.type == "default", v.where(), ": the model's embedding has the scaling ",
            rope.type, "; \"theta\" needs a \"scaling\" beside it, \"none\" for the plain one");
    require(!v.has("scaling") || !model.latent, v.where(),
            ": a scaling also changes the scale of scores in latent attention; \"theta\" and \"still\" do not");
    try {
      rope = other_rope(rope, v.has("theta") ? v["theta"].number() : rope.theta,
                        v.has("scaling") ? v["scaling"].string() : "", model.context);
    } catch (const error& e) {
      fail(v.where(), ": ", e.what());
    }
  }
  require(!rope.by_length() && !model.rope_of(layer).by_length(), v.where(),
          ": the rotary embedding depends on a document's length");
  if (v.has("still"))
    for (const auto& plane : v["still"].entries()) rope.inv_freq[plane.integer(0, rope.rotary_dim / 2 - 1)] = 0;
  return rope;
}

std::vector<head_id> heads_named(const json_value& v, const decoder_description& model) {
  std::vector<head_id> heads;
  if (!v.has("layer")) {
    require(v.has("head"), v.where(), ": a change names a \"head\" or a \"layer\"");
    heads = {parse_head(v["head"].string(), v.where())};
  } else {
    require(!v.has("head"), v.where(), ": a change names either a \"head\" or a \"layer\"");
    const index_t layer = v["layer"].integer(0, model.n_layers() - 1);
    for (index_t h = 0; h < model.query_heads; ++h) heads.push_back({layer, h});
  }
  for (const auto& [layer, head] : heads)
    require(layer < model.n_layers() && head < model.query_heads && model.attends(layer), v.where(),
            ": the model has no head ", layer, ".", head);
  return heads;
}

head_change read_change(const json_value& v, const head_id& head, const decoder_description& model) {
  head_change c{.head = head};
  c.ablate = v.has("ablate") && v["ablate"].boolean();
  const index_t dim = model.heads_of(model.layers[c.head.layer]).head_dim;
  if (v.has("key_slope")) {
    c.key_slope = v["key_slope"].numbers();
    require(static_cast<index_t>(c.key_slope.size()) == dim, v.where(), ": key_slope has ", c.key_slope.size(),
            " numbers for a head size of ", dim);
    c.centre = v["centre"].number();
  }
  if (v.has("keys_as")) {
    try {
      c.keys_as = parse_cache_type(v["keys_as"].string());
      require_blocks(*c.keys_as, dim);
    } catch (const error& e) {
      fail(v.where(), ": ", e.what());
    }
  }
  if (v.has("restore")) {
    const std::string part = v["restore"].string();
    require(part == "query" || part == "shared_keys", v.where(),
            ": \"restore\" is \"query\" or \"shared_keys\", not \"", printable(part), "\"");
    c.restore = part == "query" ? restored_part::query : restored_part::shared_keys;
  }
  if (v.has("rope")) c.rope = read_rope_change(v["rope"], model, model.layers[head.layer]);
  require(c.ablate + !c.key_slope.empty() + c.keys_as.has_value() + c.restore.has_value() + c.rope.has_value() == 1,
          v.where(),
          ": a change is either \"ablate\": true, or a \"key_slope\", or \"keys_as\" a cache type, or \"restore\", or "
          "\"rope\"");
  return c;
}

}  // namespace

std::vector<head_id> parse_head_words(std::string_view text, const std::string& where) {
  std::vector<head_id> heads;
  constexpr std::string_view between = " \t\r\n,";
  while (!text.empty()) {
    if (text[0] == '#') text.remove_prefix(std::min(text.find('\n'), text.size()));
    const std::size_t end = std::min(text.find_first_of(" \t\r\n,#"), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(between), text.size()));
    if (word.empty()) continue;
    heads.push_back(parse_head(word, where));
  }
  return in_order(std::move(heads), where);
}

head_id parse_head(std::string_view word, const std::string& where) {
  const std::size_t dot = std::min(word.find('.'), word.size());
  require(dot < word.size(), where, ": heads must be LAYER.HEAD, e.g. 3.12, not '", printable(std::string(word)), "'");
  return {number(word.substr(0, dot), where), number(word.substr(dot + 1), where)};
}

std::vector<head_id> parse_head_lists(const json& object, const std::string& where) {
  const json_value v(object, where);
  v.expect(v.is_object(), "an object with a list of heads for each layer");
  std::vector<head_id> heads;
  for (const auto& [layer, list] : object.items())
    for (const index_t head : json_value(list, where, printable(layer)).integers(0, most_heads))
      heads.push_back({number(layer, where), head});
  return in_order(std::move(heads), where);
}

std::vector<head_id> read_head_list(const std::filesystem::path& path) {
  const std::string text = read_text(path, std::size_t{4} << 20), where = path.string();
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return parse_head_lists(parse_json(text, where), where);
  return parse_head_words(text, where);
}

std::vector<condition> read_conditions(const std::filesystem::path& path, const decoder_description& model) {
  const std::string where = path.string();
  const json document = parse_json(read_text(path, std::size_t{16} << 20), where);
  std::vector<condition> conditions;
  std::set<std::string> names;
  for (const auto& entry : json_value(document, where)["conditions"].entries()) {
    condition c{entry["name"].string(), {}};
    require(!c.name.empty() && names.insert(c.name).second, entry.where(),
            ": each condition needs a name of its own, not \"", printable(c.name), "\" again");
    std::set<head_id> heads;
    for (const auto& change : entry["changes"].entries())
      for (const head_id& h : heads_named(change, model)) {
        c.changes.push_back(read_change(change, h, model));
        require(heads.insert(h).second, change.where(), ": condition \"", printable(c.name), "\" names head ", h.layer,
                ".", h.head, " twice");
      }
    conditions.push_back(std::move(c));
  }
  require(!conditions.empty(), where, ": there is no condition");
  return conditions;
}

}  // namespace qkgeom
