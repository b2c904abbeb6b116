// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {

/// What a capture says of its model.
struct captured_model {
  std::string name, model_type, config_sha256;
  index_t head_dim = 0, n_layers = 0, n_query_heads = 0, n_key_heads = 0;
  bool operator==(const captured_model&) const = default;
};

/// Buckets over which tokens were drawn. `kind` is "uniform", "log2" or "all"; `size` in tokens (log2: the smallest).
struct captured_buckets {
  std::string kind = "uniform";
  index_t size = 0;
  bool operator==(const captured_buckets&) const = default;

  /// The edges over [0, context_length); "all" has the uniform grid of its size. Throws
  /// `error` if they would be millions.
  bucket_edges edges(index_t context_length) const {
    constexpr index_t most = index_t{1} << 22;
    require(size > 0 && (kind == "log2" || context_length / size <= most), "buckets of ", size, " tokens over ",
            context_length, " are more than the ", most, " allowed");
    return kind == "log2" ? log2_buckets{size}.edges(context_length) : uniform_buckets{size}.edges(context_length);
  }
};

/// A document of a capture: the number by which rows name it, its id, its tokens, and labels (an object, or null).
struct captured_example {
  index_t index = 0;
  std::string id;
  index_t tokens = 0;
  json labels = nullptr;
  bool operator==(const captured_example&) const = default;
};

/// Rotary embedding as applied: `style` is "half" or "interleaved".
struct captured_rope {
  std::string style;
  index_t rotary_dim = 0;
  double attention_factor = 1;
  std::vector<double> inv_freq;
  bool operator==(const captured_rope&) const = default;
};

/// A layer of a capture and the model's head indices in the order of the tensors' axis 1. `window` in tokens.
/// `rope_parameters` stands only where layers differ.
struct captured_layer_info {
  index_t layer = 0;
  bool rope = true;
  std::optional<index_t> window;
  std::vector<index_t> query_heads, key_heads;
  std::optional<captured_rope> rope_parameters;
  bool operator==(const captured_layer_info&) const = default;
};

/// A shard of a capture folder: its examples, and its rows, queries and keys of all layers together.
struct captured_shard {
  std::string file;
  std::vector<index_t> examples;
  index_t rows = 0;
  bool operator==(const captured_shard&) const = default;
};

/// The manifest of a capture, format version 1. `extra` keeps the fields that are not known here.
struct capture_manifest {
  captured_model model;
  index_t context_length = 0;
  captured_buckets bucket;
  double rate = 0;
  std::string rope_stage = "post";
  std::uint64_t seed = 0;
  std::vector<captured_layer_info> layers;
  std::optional<std::vector<captured_example>> examples;
  std::optional<std::string> revision, compute_dtype, family;
  std::optional<captured_rope> rope;
  std::vector<captured_shard> shards;  ///< empty in a single file
  std::string written_by;
  json extra = json::object();
  bool operator==(const capture_manifest&) const = default;

  /// The layer of that number. Throws `error` if it was not captured.
  const captured_layer_info& layer(index_t number) const {
    const auto it = std::find_if(layers.begin(), layers.end(), [&](const auto& l) { return l.layer == number; });
    require(it != layers.end(), "layer ", number, " is not in this capture");
    return *it;
  }
  /// Indices into `key_heads` by query head: head h reads floor(h n_key_heads / n_query_heads).
  std::vector<index_t> key_of_query(const captured_layer_info& l) const {
    std::vector<index_t> map;
    for (const index_t h : l.query_heads) {
      const index_t key = h * model.n_key_heads / model.n_query_heads;
      const auto it = std::find(l.key_heads.begin(), l.key_heads.end(), key);
      require(it != l.key_heads.end(), "layer ", l.layer, ": query head ", h, " reads key head ", key,
              ", which key_heads does not list");
      map.push_back(it - l.key_heads.begin());
    }
    return map;
  }
};

namespace detail {

inline constexpr index_t largest_position = 0x7fffffff;  // positions and examples are 32-bit

inline captured_rope read_rope(const json_value& v) {
  captured_rope rope;
  rope.style = v["style"].string();
  v["style"].expect(rope.style == "half" || rope.style == "interleaved", "\"half\" or \"interleaved\"");
  rope.rotary_dim = v["rotary_dim"].integer(0, 1 << 20);
  if (v.has("attention_factor")) rope.attention_factor = v["attention_factor"].number();
  rope.inv_freq = v["inv_freq"].numbers();
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
  if (own) l.rope_parameters = read_rope(v[v["rope"].is_object() ? "rope" : "rope_parameters"]);
  if (v.has("window")) l.window = v["window"].integer(1, largest_position);
  l.query_heads = read_heads(v["query_heads"], model.n_query_heads);
  l.key_heads = read_heads(v["key_heads"], model.n_key_heads);
  return l;
}

inline captured_shard read_shard(const json_value& v) {
  captured_shard s;
  s.file = v["file"].string();
  // Files come from elsewhere: a shard lies in the capture's folder and nowhere else.
  const bool plain = !s.file.empty() && s.file[0] != '.' && std::none_of(s.file.begin(), s.file.end(), [](char c) {
    return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
  });
  v["file"].expect(plain, "the plain name of a file in the capture's folder");
  s.examples = v["examples"].integers(0, largest_position);
  s.rows = v["rows"].integer(0);
  return s;
}

inline captured_example read_example(const json_value& v) {
  captured_example e;
  e.index = v["index"].integer(0, largest_position);
  e.id = v["id"].string();
  e.tokens = v["tokens"].integer(0);
  if (v.has("labels")) {
    v["labels"].expect(v["labels"].is_object(), "an object");
    e.labels = v["labels"].raw();
  }
  return e;
}

inline captured_model read_model(const json_value& v) {
  captured_model m;
  m.name = v["name"].string();
  m.model_type = v["model_type"].string();
  if (v.has("config_sha256")) m.config_sha256 = v["config_sha256"].string();
  m.head_dim = v["head_dim"].integer(1, 1 << 16);
  m.n_layers = v["n_layers"].integer(1, 1 << 20);
  m.n_query_heads = v["n_query_heads"].integer(1, 1 << 20);
  m.n_key_heads = v["n_key_heads"].integer(1, m.n_query_heads);
  return m;
}

template <class List, class Key>
void require_each_once(const List& list, const std::string& where, const char* what, Key key) {
  std::set<std::decay_t<decltype(key(*list.begin()))>> seen;
  for (const auto& entry : list)
    require(seen.insert(key(entry)).second, where, ": ", what, ' ', key(entry), " stands twice");
}

inline void read_optional(const json_value& v, capture_manifest& m) {
  const auto text = [&](const char* field, std::optional<std::string>& to) {
    if (v.has(field)) to = v[field].string();
  };
  text("revision", m.revision);
  text("compute_dtype", m.compute_dtype);
  text("family", m.family);
  if (v.has("rope")) m.rope = read_rope(v["rope"]);
  if (v.has("written_by")) m.written_by = v["written_by"].string();
  if (v.has("examples")) {
    m.examples.emplace();
    for (const auto& e : v["examples"].entries()) m.examples->push_back(read_example(e));
    require_each_once(*m.examples, v.where(), "example", [](const auto& e) { return e.index; });
  }
  if (v.has("shards")) {
    std::set<index_t> seen;
    for (const auto& s : v["shards"].entries()) {
      m.shards.push_back(read_shard(s));
      for (const index_t e : m.shards.back().examples)
        require(seen.insert(e).second, v.where(), ": example ", e, " is in more than one shard");
    }
  }
  for (const auto& [name, value] : v.raw().items()) {
    static const std::set<std::string_view> known{
        "format",   "version",  "model",         "context_length", "bucket", "rate",   "rope_stage", "seed",
        "examples", "revision", "compute_dtype", "family",         "rope",   "layers", "shards",     "written_by"};
    if (!known.count(name)) m.extra[name] = value;
  }
}

}  // namespace detail

/// Reads a manifest from its JSON text; `where` names the file in errors. Throws `error` with one sentence naming the
/// field that is missing, of a wrong type, out of range, or at odds with another.
inline capture_manifest parse_manifest(std::string_view text, const std::string& where) {
  const json document = parse_json(text, where);
  const json_value v(document, where);
  v.expect(v.is_object(), "an object");
  v["format"].expect(v["format"].string() == "qkgeom-capture", "\"qkgeom-capture\"");
  v["version"].expect(v["version"].integer() == 1, "1, the version this program reads");
  capture_manifest m;
  m.model = detail::read_model(v["model"]);
  m.context_length = v["context_length"].integer(1, detail::largest_position);
  m.bucket.kind = v["bucket"]["kind"].string();
  v["bucket"]["kind"].expect(m.bucket.kind == "uniform" || m.bucket.kind == "log2" || m.bucket.kind == "all",
                             "\"uniform\", \"log2\" or \"all\"");
  m.bucket.size = v["bucket"]["size"].integer(1, detail::largest_position);
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

}  // namespace qkgeom
