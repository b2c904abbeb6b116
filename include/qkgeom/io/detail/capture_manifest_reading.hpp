// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/detail/each_once.hpp"

namespace qkgeom {

namespace detail {

inline captured_rope read_rope(const json_value& v, index_t head_dim) {
  captured_rope rope;
  rope.style = v["style"].string();
  v["style"].expect(rope.style == "half" || rope.style == "interleaved", "\"half\" or \"interleaved\"");
  rope.rotary_dim = v["rotary_dim"].integer(0, head_dim);
  if (v.has("first")) rope.first = v["first"].integer(0, head_dim - rope.rotary_dim);
  if (v.has("attention_factor")) rope.attention_factor = v["attention_factor"].number();
  rope.inv_freq = v["inv_freq"].numbers();
  v["inv_freq"].expect(2 * static_cast<index_t>(rope.inv_freq.size()) == rope.rotary_dim,
                       "a frequency for each two of rotary_dim coordinates");
  return rope;
}

inline std::vector<index_t> read_heads(const json_value& v, index_t heads) {
  auto list = v.integers(0, heads - 1);
  v.expect(!list.empty(), "a list of at least one head");
  v.expect(std::set<index_t>(list.begin(), list.end()).size() == list.size(), "a list that names each head once");
  return list;
}

inline captured_layer_info read_layer_info(const json_value& v, const captured_model& model) {
  captured_layer_info l;
  l.layer = v["layer"].integer(0, model.n_layers - 1);
  // The format has one word for both: a flag, or the parameters of a layer that has its own.
  const bool own = v["rope"].is_object() || v.has("rope_parameters");
  l.rope = v["rope"].is_object() || v["rope"].boolean();
  if (own) l.rope_parameters = read_rope(v[v["rope"].is_object() ? "rope" : "rope_parameters"], model.head_dim);
  if (v.has("window")) l.window = v["window"].integer(1, largest_position);
  l.query_heads = read_heads(v["query_heads"], model.n_query_heads);
  l.key_heads = read_heads(v["key_heads"], model.n_key_heads);
  return l;
}

inline captured_shard read_shard(const json_value& v) {
  captured_shard s;
  s.file = v["file"].name();
  // Files come from elsewhere: a shard lies in the capture's folder and nowhere else.
  const bool plain = !s.file.empty() && s.file[0] != '.' && s.file.find_first_of("/\\") == std::string::npos &&
                     printable(s.file, max_name_bytes) == s.file;
  v["file"].expect(plain, "the plain name of a file in the capture's folder");
  s.documents = v["examples"].integers(0, largest_position);
  s.rows = v["rows"].integer(0);
  if (v.has("sha256")) s.sha256 = v["sha256"].string();
  return s;
}

inline captured_document read_document(const json_value& v) {
  captured_document e;
  e.index = v["index"].integer(0, largest_position);
  e.id = v["id"].name();
  e.tokens = v["tokens"].integer(0);
  if (v.has("labels")) {
    v["labels"].expect(v["labels"].is_object(), "an object");
    e.labels = v["labels"].raw();
    for (const auto& [name, value] : e.labels.items())
      require(name.size() <= max_name_bytes &&
                  (!value.is_string() || value.get_ref<const std::string&>().size() <= max_name_bytes),
              v["labels"].where(), ": a name or a value has more than ", max_name_bytes, " bytes");
  }
  return e;
}

inline captured_model read_model(const json_value& v) {
  captured_model m;
  m.name = v["name"].name();
  m.model_type = v["model_type"].name();
  if (v.has("config_sha256")) m.config_sha256 = v["config_sha256"].name();
  m.head_dim = v["head_dim"].integer(1, 1 << 16);
  m.n_layers = v["n_layers"].integer(1, 1 << 20);
  m.n_query_heads = v["n_query_heads"].integer(1, 1 << 20);
  m.n_key_heads = v["n_key_heads"].integer(1, m.n_query_heads);
  return m;
}

inline void read_optional(const json_value& v, capture_manifest& m) {
  const auto text = [&](const char* field, std::optional<std::string>& to) {
    if (v.has(field)) to = v[field].name();
  };
  text("revision", m.revision);
  text("compute_dtype", m.compute_dtype);
  text("family", m.family);
  if (v.has("rope")) m.rope = read_rope(v["rope"], m.model.head_dim);
  m.score_scale = v.positive("score_scale");
  m.score_softcap = v.positive("score_softcap");
  if (v.has("written_by")) m.written_by = v["written_by"].name();
  if (v.has("examples")) {
    m.documents.emplace();
    for (const auto& e : v["examples"].entries()) m.documents->push_back(read_document(e));
    require_each_once(*m.documents, v.where(), "example", [](const auto& e) { return e.index; });
  }
  if (v.has("shards")) {
    std::set<index_t> seen;
    for (const auto& s : v["shards"].entries()) {
      m.shards.push_back(read_shard(s));
      for (const index_t e : m.shards.back().documents)
        require(seen.insert(e).second, v.where(), ": example ", e, " is in more than one shard");
    }
  }
  for (const auto& [name, value] : v.raw().items()) {
    static const std::set<std::string_view> known{
        "format",     "version", "model",    "context_length", "bucket",        "rate",
        "rope_stage", "seed",    "examples", "revision",       "compute_dtype", "family",
        "rope",       "layers",  "shards",   "written_by",     "score_scale",   "score_softcap"};
    if (!known.count(name)) m.extra[name] = value;
  }
}

}  // namespace detail

QKGEOM_INLINE capture_manifest parse_manifest(std::string_view text, const std::string& where) {
  const json document = parse_json(text, where);
  const json_value v(document, where);
  v.expect(v.is_object(), "an object");
  v["format"].expect(v["format"].string() == "qkgeom-capture", "\"qkgeom-capture\"");
  v["version"].expect(v["version"].integer() == 1, "1, the version this program reads");
  capture_manifest m;
  m.model = detail::read_model(v["model"]);
  m.context_length = v["context_length"].integer(1, largest_position);
  m.bucket.kind = v["bucket"]["kind"].string();
  v["bucket"]["kind"].expect(m.bucket.kind == "uniform" || m.bucket.kind == "log2" || m.bucket.kind == "all",
                             "\"uniform\", \"log2\" or \"all\"");
  m.bucket.size = v["bucket"]["size"].integer(1, largest_position);
  m.rate = v["rate"].number();
  v["rate"].expect(m.rate >= 0, "a number >= 0");
  m.rope_stage = v["rope_stage"].string();
  v["rope_stage"].expect(m.rope_stage == "post" || m.rope_stage == "pre", "\"post\" or \"pre\"");
  m.seed = v["seed"].unsigned_integer();
  for (const auto& l : v["layers"].entries()) {
    m.layers.push_back(detail::read_layer_info(l, m.model));
    try {
      m.key_of_query(m.layers.back());
    } catch (const error& e) {
      fail(where, ": ", e.what());
    }
  }
  v["layers"].expect(!m.layers.empty(), "a list of at least one layer");
  detail::require_each_once(m.layers, where, "layer", [](const auto& l) { return l.layer; });
  detail::read_optional(v, m);
  return m;
}

QKGEOM_INLINE index_t capture_manifest::usual_bucket_size() const {
  if (bucket.kind == "uniform" && bucket.size > 0) return bucket.size;
  if (const auto at = extra.find("moments"); at != extra.end() && at->is_object())
    if (const auto size = at->find("bucket_size");
        size != at->end() && size->is_number_integer() && *size > 0 && *size <= context_length)
      return size->get<index_t>();
  return sixteenth_of(context_length);
}

QKGEOM_INLINE std::vector<index_t> capture_manifest::key_of_query(const captured_layer_info& l) const {
  std::vector<index_t> map;
  for (const index_t h : l.query_heads) {
    const index_t key = key_head_of(h, model.n_query_heads, model.n_key_heads);
    const auto it = std::find(l.key_heads.begin(), l.key_heads.end(), key);
    require(it != l.key_heads.end(), "layer ", l.layer, ": query head ", h, " reads key head ", key,
            ", which key_heads does not list");
    map.push_back(it - l.key_heads.begin());
  }
  return map;
}

}  // namespace qkgeom
