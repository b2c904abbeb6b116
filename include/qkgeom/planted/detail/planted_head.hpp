// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/planted/planted_head.hpp"

namespace qkgeom::detail {

inline void plant_side(const planted_head& head, bool query, std::vector<double>& x,
                       std::vector<std::int32_t>& position, std::vector<std::int32_t>& document) {
  const std::size_t d = head.dim;
  const auto& mean = query ? head.mean_q : head.mean_k;
  const auto& drift = query ? head.drift_q : head.drift_k;
  const auto& root = query ? head.root_q : head.root_k;
  std::vector<double> noise(d);
  for (index_t e = 0; e < head.documents; ++e) {
    const random_stream stream{head.seed, static_cast<std::uint32_t>(e), query ? 0u : 1u, draw::planted};
    std::vector<std::int32_t> drawn;
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(head.rows); ++i)
      drawn.push_back(static_cast<std::int32_t>(stream.below((std::uint64_t{1} << 40) + i, head.context_length)));
    std::sort(drawn.begin(), drawn.end());
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      for (std::size_t c = 0; c < d; ++c) noise[c] = stream.normal(i * d + c);
      const double t = drawn[i] - 0.5 * static_cast<double>(head.context_length);
      for (std::size_t r = 0; r < d; ++r) {
        double value = (mean.empty() ? 0.0 : mean[r]) + (drift.empty() ? 0.0 : drift[r] * t);
        if (root.empty())
          value += noise[r];
        else
          for (std::size_t c = 0; c < d; ++c) value += root[r * d + c] * noise[c];
        x.push_back(value);
      }
      position.push_back(drawn[i]);
      document.push_back(static_cast<std::int32_t>(e));
    }
  }
}

QKGEOM_INLINE planted_rows<double> planted_in_f64(const planted_head& head) {
  require(head.dim >= 1, "plant: dim must be at least 1, not ", head.dim);
  require(head.context_length >= 1 && head.context_length <= index_t{0x7fffffff},
          "plant: context_length must lie in [1, 2147483647], not ", head.context_length);
  require(head.documents >= 0 && head.rows >= 0, "plant: examples (", head.documents, ") and rows (", head.rows,
          ") must be at least 0");
  const auto check_size = [](const char* name, const std::vector<double>& x, index_t size) {
    require(x.empty() || static_cast<index_t>(x.size()) == size, "plant: ", name, " has ", x.size(),
            " entries instead of ", size);
  };
  check_size("mean_q", head.mean_q, head.dim);
  check_size("mean_k", head.mean_k, head.dim);
  check_size("drift_q", head.drift_q, head.dim);
  check_size("drift_k", head.drift_k, head.dim);
  check_size("root_q", head.root_q, head.dim * head.dim);
  check_size("root_k", head.root_k, head.dim * head.dim);
  planted_rows<double> rows;
  rows.dim = head.dim;
  plant_side(head, true, rows.q, rows.q_position, rows.q_document);
  plant_side(head, false, rows.k, rows.k_position, rows.k_document);
  return rows;
}

}  // namespace qkgeom::detail
