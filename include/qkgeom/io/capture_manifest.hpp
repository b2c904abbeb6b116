// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "qkgeom/context/row_rotation.hpp"
#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/json.hpp"
#include "qkgeom/rotary/captured_rope.hpp"
#include "qkgeom/sampling/head_draw.hpp"

namespace qkgeom {

/// Largest position and document number of a capture: both are 32-bit.
inline constexpr index_t largest_position = 0x7fffffff;

/// Largest manifest that readers accept, bytes.
inline constexpr std::size_t max_manifest_bytes = 100'000'000;

/// Most query buckets of an analysis, and most buckets of stored statistics.
inline constexpr index_t max_query_buckets = 4096;

struct captured_model {
  std::string name, model_type, config_sha256;
  index_t head_dim = 0, n_layers = 0, n_query_heads = 0, n_key_heads = 0;
  index_t context = 0;  ///< tokens, its max_position_embeddings; 0: not known
  bool operator==(const captured_model&) const = default;
};

/// Position buckets over which tokens were drawn. `kind` is "uniform", "log2" or "all"; `size` in tokens, for "log2"
/// the smallest bucket's.
struct captured_buckets {
  std::string kind = "uniform";
  index_t size = 0;
  bool operator==(const captured_buckets&) const = default;

  /// Returns the edges over [0, context_length); "all" has the uniform grid of its size. Throws `error` above
  /// `max_query_buckets`.
  bucket_edges edges(index_t context_length) const {
    require(size > 0 && (kind == "log2" || (context_length - 1) / size < max_query_buckets), "buckets of ", size,
            " tokens over a context of ", context_length, " are more than the ", max_query_buckets,
            " allowed; --bucket-size takes wider ones");
    return kind == "log2" ? log2_buckets{size}.edges(context_length) : uniform_buckets{size}.edges(context_length);
  }
};

/// A document of a capture: its number in the rows, its id, its tokens, and labels (an object, or null).
struct captured_document {
  index_t index = 0;
  std::string id;
  index_t tokens = 0;
  json labels = nullptr;
  bool operator==(const captured_document&) const = default;
};

/// The norm of each head after the rotation: x / sqrt(mean(x^2) + eps), times weights by channel.
struct captured_norm {
  double eps = 0;
  std::vector<double> query{}, key{};  ///< (head_dim) weights; empty: none
  bool divided = false;  ///< rows from before the rotation are divided by their size already (`before_rope`)

  /// Returns whether it does not commute with the rotation.
  bool weighs() const { return !query.empty() || !key.empty(); }
  bool operator==(const captured_norm&) const = default;
};

/// A layer of a capture. Heads are the model's indices in the order of the tensors' axis 1; `window` in tokens;
/// `rope_parameters` only if layers differ.
struct captured_layer_info {
  index_t layer = 0;
  bool rope = true;
  std::optional<index_t> window;
  std::vector<index_t> query_heads, key_heads;
  std::optional<captured_rope> rope_parameters;
  std::optional<captured_norm> norm{};
  bool operator==(const captured_layer_info&) const = default;
};

/// The steps of a layer from rows before the rotary embedding (`rope_stage` pre) to the rows that enter q.k, in order.
struct row_steps {
  std::optional<captured_rope> rope{};
  std::optional<captured_norm> norm{};
  query_growth growth{};  ///< of queries
};

/// A shard of a capture folder: its documents, the number of its rows (queries and keys of all layers), and the SHA-256
/// of its file (empty: unknown).
struct captured_shard {
  std::string file;
  std::vector<index_t> documents;
  index_t rows = 0;
  std::string sha256{};
  bool operator==(const captured_shard&) const = default;
};

/// The manifest of a capture, format version 1. `extra` keeps fields that the format does not name.
struct capture_manifest {
  captured_model model;
  index_t context_length = 0;
  captured_buckets bucket;
  double rate = 0;
  std::string rope_stage = "post";
  std::uint64_t seed = 0;
  std::vector<captured_layer_info> layers;
  std::optional<std::vector<captured_document>> documents;
  std::optional<std::string> revision, compute_dtype, family;
  std::optional<captured_rope> rope;
  std::optional<double> score_scale;    ///< factor of q.k in the softmax; without a value: 1/sqrt(head_dim)
  std::optional<double> score_softcap;  ///< c of the soft cap c tanh(x / c) of scores x in logits
  std::vector<captured_shard> shards;   ///< empty in a single file
  std::string written_by;
  json extra = json::object();
  bool operator==(const capture_manifest&) const = default;

  /// Returns the index into `layers` of the layer of that number; -1 if it was not captured.
  index_t find_layer(index_t number) const {
    const auto it = std::find_if(layers.begin(), layers.end(), [&](const auto& l) { return l.layer == number; });
    return it == layers.end() ? -1 : it - layers.begin();
  }
  /// Returns the layer of that number. Throws `error` if it was not captured.
  const captured_layer_info& layer(index_t number) const {
    const index_t at = find_layer(number);
    require(at >= 0, "layer ", number, " is not in this capture");
    return layers[at];
  }
  /// Returns the rotary embedding of a layer; no value for a NoPE layer. Throws `error` if the capture lacks it.
  std::optional<captured_rope> rope_of(const captured_layer_info& l) const {
    if (!l.rope) return std::nullopt;
    auto found = l.rope_parameters ? l.rope_parameters : rope;
    require(found.has_value(), "layer ", l.layer,
            " has rotary embeddings, but the capture does not say which (inv_freq)");
    return found;
  }
  /// Returns the steps of a layer's rows. Throws `error` if the capture does not state them.
  row_steps steps_of(const captured_layer_info& l) const;
  /// Counts the captured query heads of all layers.
  index_t query_heads() const {
    index_t n = 0;
    for (const captured_layer_info& l : layers) n += static_cast<index_t>(l.query_heads.size());
    return n;
  }
  /// Returns the width of a bucket, in tokens, when sixteen cover the context, rounded up (section 4.1.2).
  static constexpr index_t sixteenth_of(index_t context) { return std::max<index_t>(1, (context + 15) / 16); }
  /// Returns the default width of a query bucket, tokens: that of the capture's uniform buckets, else of its moments of
  /// every token, else a sixteenth of the context.
  index_t usual_bucket_size() const;
  /// Returns by query head the index into `key_heads` of the key head that it reads. Throws `error` if the key head was
  /// not captured.
  std::vector<index_t> key_of_query(const captured_layer_info& l) const;
};

/// Reads a manifest from its JSON text; `where` names the file in errors. Throws `error` with one sentence naming the
/// field that is missing, of a wrong type, out of range, or at odds with another.
capture_manifest parse_manifest(std::string_view text, const std::string& where);

/// Writes the manifest as JSON, fields in the order of the format; equal manifests give equal text. `indent`: spaces
/// per level; -1: one line. Throws `error` if a string is not UTF-8.
std::string manifest_text(const capture_manifest& m, int indent = -1);

/// Part `number` (from 1) of the `of` parts of a capture, each made by a process of its own.
struct capture_part {
  index_t number = 1, of = 1;
  bool operator==(const capture_part&) const = default;
};

/// Most parts of one capture.
inline constexpr index_t most_parts = 100000;

/// Manifest fields of a part: its number and the number of parts; a hash of the tokenised documents of all parts; in
/// `moments` the number of the part's first block.
inline constexpr const char *part_field = "part", *inputs_field = "inputs_sha256", *first_block_field = "first_block";

/// Manifest field: SHA-256 of the weights.
inline constexpr const char* weights_field = "weights_sha256";

/// Manifest field: what the capture found odd about the model or its documents, a list of {"note": kind, "text":
/// sentence}. Programs repeat these notes beside those of their own.
inline constexpr const char* notes_field = "notes";

/// Returns the part that a manifest belongs to; no value for a whole capture. `name` is for errors. Throws `error` on
/// impossible numbers.
std::optional<capture_part> part_of(const capture_manifest& m, const std::string& name);

/// Returns the number of the first file of moments in a capture's folder; only later parts have one above 0.
index_t first_moment_block(const capture_manifest& m, const std::string& name);

/// Returns whether both are parts of one capture of the same documents.
bool same_whole(const capture_manifest& a, const capture_manifest& b);

/// Returns the seed of an untrained model's weights as the manifest writes it; no value for a checkpoint's weights.
std::optional<std::string> untrained_seed(const capture_manifest& m);

namespace detail {

/// Throws `error` if two entries of a list have the same key.
template <class List, class Key>
void require_each_once(const List& list, const std::string& where, const char* what, Key key) {
  std::set<std::decay_t<decltype(key(*list.begin()))>> seen;
  for (const auto& entry : list)
    require(seen.insert(key(entry)).second, where, ": ", what, ' ', key(entry), " stands twice");
}

}  // namespace detail

}  // namespace qkgeom
