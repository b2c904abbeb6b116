// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "qkgeom/core/random.hpp"
#include "qkgeom/io/capture_writer.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "qkgeom/rotary/rotation_between.hpp"

namespace qkgeom::test {

/// A capture of layers with one head of size 8, whose rows before the rotation are N(mean of the layer, identity); the
/// mean may rise and the spread grow along the context. Each row stands somewhere in its
/// own stretch of the context.
struct planted_capture {
  index_t context = 64, documents = 4, rows = 32;
  index_t layers = 1;
  std::string stage = "post";
  double drift = 0;   ///< rise of coordinate 0 of queries and keys over the context
  double growth = 0;  ///< rows at the end are 1 + growth times as far from their mean
  std::uint64_t seed = 1;
  bool says_rope = true;
  std::optional<frequencies_by_length> by_length{};
  json extra = json::object();      ///< fields of the manifest that the format does not name
  index_t buckets = 16;             ///< query buckets
  index_t first = 0, in_shard = 1;  ///< of which document it has the rows at first; documents of a shard
  index_t lacking = -1;             ///< layer 1 has no rows of the shard that begins with this document
  std::optional<index_t> window{};  ///< of layer 1, which has no rotary embedding then
  static constexpr index_t d = 8;

  captured_rope rope() const { return {"half", d, 1, {1, 0.1, 0.01, 0.0005}}; }

  capture_manifest manifest() const {
    capture_manifest m;
    m.model = {"planted", "llama", "00", d, layers, 1, 1};
    m.context_length = context;
    m.bucket = {"uniform", context / buckets};
    m.rate = 1;
    m.rope_stage = stage;
    if (says_rope) m.rope = rope();
    if (m.rope) m.rope->by_length = by_length;
    for (index_t l = 0; l < layers; ++l) m.layers.push_back({l, true, std::nullopt, {0}, {0}, std::nullopt});
    if (window) m.layers[1].rope = false, m.layers[1].window = window;
    m.documents.emplace();
    for (index_t e = 0; e < documents; ++e) m.documents->push_back({e, std::to_string(e), context, nullptr});
    m.extra = extra;
    m.written_by = "test";
    return m;
  }

  /// The rows of a layer of these documents.
  planted_rows<float> rows_of(index_t layer, const std::vector<index_t>& of) const {
    planted_rows<float> all;
    all.dim = d;
    for (const index_t e : of) {
      add_rows(layer, e, true, all.q, all.q_position, all.q_document);
      add_rows(layer, e, false, all.k, all.k_position, all.k_document);
    }
    return all;
  }

  void write(const std::filesystem::path& path) const {
    const auto m = manifest();
    capture_writer writer(path, m);
    for (index_t begin = 0; begin < documents; begin += in_shard) {
      std::vector<index_t> of(std::min(in_shard, documents - begin));
      std::iota(of.begin(), of.end(), begin);
      std::vector<planted_rows<float>> all;
      std::vector<layer_to_write> written;
      for (index_t l = 0; l < layers; ++l)
        all.push_back(rows_of(l, l == 1 && begin == lacking ? std::vector<index_t>{} : of));
      for (index_t l = 0; l < layers; ++l) written.push_back(as_written(l, all[l]));
      const auto own = m.documents->begin() + begin;
      writer.add_shard({own, own + std::ssize(of)}, written);
    }
    writer.finish();
  }

  static layer_to_write as_written(index_t layer, const planted_rows<float>& rows) {
    return {layer,
            dtype::f32,
            {std::as_bytes(std::span(rows.q)), rows.q_position, rows.q_document, {}},
            {std::as_bytes(std::span(rows.k)), rows.k_position, rows.k_document, {}}};
  }

 private:
  void add_rows(index_t layer, index_t document, bool query, std::vector<float>& to,
                std::vector<std::int32_t>& position, std::vector<std::int32_t>& of) const {
    const random_stream draws{seed + (query ? 0 : 1000), static_cast<std::uint32_t>(first + document),
                              static_cast<std::uint32_t>(layer), draw::planted};
    for (index_t i = 0; i < rows; ++i) {
      const index_t begin = context * i / rows, width = context * (i + 1) / rows - begin;
      const auto within =
          draws.below((std::uint64_t{1} << 40) + static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(width));
      const index_t t = begin + static_cast<index_t>(within);
      const double share = static_cast<double>(t) / static_cast<double>(context);
      std::vector<double> x(d);
      for (index_t c = 0; c < d; ++c) {
        const double mean = 1.5 * std::sin(static_cast<double>(3 * layer + c + (query ? 0 : 5)));
        x[c] = mean + (1 + growth * share) * draws.normal(static_cast<std::uint64_t>(i * d + c));
      }
      x[0] += drift * share;
      if (stage == "post") vector_rotation(rope(), static_cast<double>(t))(x.data());
      to.insert(to.end(), x.begin(), x.end());
      position.push_back(static_cast<std::int32_t>(t));
      of.push_back(static_cast<std::int32_t>(document));
    }
  }
};

}  // namespace qkgeom::test
