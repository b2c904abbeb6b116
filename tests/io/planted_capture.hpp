// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "qkgeom/core/random.hpp"
#include "qkgeom/io/capture_writer.hpp"
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
  json extra = json::object();  ///< fields of the manifest that the format does not name
  static constexpr index_t d = 8;

  captured_rope rope() const { return {"half", d, 1, {1, 0.1, 0.01, 0.0005}}; }

  void write(const std::filesystem::path& path) const {
    capture_manifest m;
    m.model = {"planted", "llama", "00", d, layers, 1, 1};
    m.context_length = context;
    m.bucket = {"uniform", context / 16};
    m.rate = 1;
    m.rope_stage = stage;
    if (says_rope) m.rope = rope();
    if (m.rope) m.rope->by_length = by_length;
    for (index_t l = 0; l < layers; ++l) m.layers.push_back({l, true, std::nullopt, {0}, {0}, std::nullopt});
    m.documents.emplace();
    m.extra = extra;
    m.written_by = "test";
    capture_writer writer(path, m);
    for (index_t e = 0; e < documents; ++e) {
      std::vector<side> sides;
      for (index_t l = 0; l < layers; ++l)
        for (const bool query : {true, false}) sides.push_back(rows_of(e, l, query));
      std::vector<layer_to_write> written;
      for (index_t l = 0; l < layers; ++l)
        written.push_back({l, dtype::f32, sides[2 * l].view(), sides[2 * l + 1].view()});
      writer.add_shard({{e, std::to_string(e), context, nullptr}}, written);
    }
    writer.finish();
  }

 private:
  struct side {
    std::vector<float> x;
    std::vector<std::int32_t> position, document;
    side_to_write view() const { return {std::as_bytes(std::span(x)), position, document, {}}; }
  };

  side rows_of(index_t document, index_t layer, bool query) const {
    const random_stream draws{seed + (query ? 0 : 1000), static_cast<std::uint32_t>(document),
                              static_cast<std::uint32_t>(layer), draw::planted};
    side s;
    for (index_t i = 0; i < rows; ++i) {
      const index_t first = context * i / rows, width = context * (i + 1) / rows - first;
      const auto within =
          draws.below((std::uint64_t{1} << 40) + static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(width));
      const index_t t = first + static_cast<index_t>(within);
      const double share = static_cast<double>(t) / static_cast<double>(context);
      std::vector<double> x(d);
      for (index_t c = 0; c < d; ++c) {
        const double mean = 1.5 * std::sin(static_cast<double>(3 * layer + c + (query ? 0 : 5)));
        x[c] = mean + (1 + growth * share) * draws.normal(static_cast<std::uint64_t>(i * d + c));
      }
      x[0] += drift * share;
      if (stage == "post") vector_rotation(rope(), static_cast<double>(t))(x.data());
      for (const double v : x) s.x.push_back(static_cast<float>(v));
      s.position.push_back(static_cast<std::int32_t>(t));
      s.document.push_back(static_cast<std::int32_t>(document));
    }
    return s;
  }
};

}  // namespace qkgeom::test
