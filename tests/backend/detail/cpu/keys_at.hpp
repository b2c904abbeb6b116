// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/context/pair_formula.hpp"
#include "qkgeom/core/view.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/householder.hpp"

namespace qkgeom::test {

/// The keys of documents 0, 1, ... at these positions, which are sorted; key i is row i.
inline keys_by_document keys_at(std::vector<std::vector<std::int32_t>> documents) {
  keys_by_document groups;
  groups.offset.push_back(0);
  for (auto& t : documents) {
    std::sort(t.begin(), t.end());
    groups.position.insert(groups.position.end(), t.begin(), t.end());
    groups.document.push_back(static_cast<std::int32_t>(groups.document.size()));
    groups.offset.push_back(static_cast<index_t>(groups.position.size()));
  }
  groups.row.resize(groups.position.size());
  std::iota(groups.row.begin(), groups.row.end(), std::int64_t{0});
  return groups;
}

/// Sums over the keys k (n, 1, d) by the definition, pair by pair in f64; the heatmap has `width` cells of `cell`
/// tokens along each side.
inline pair_sums by_definition(const tensor_view<const double>& k, const keys_by_document& groups,
                               const pair_problem& p, const pair_weight& weight, index_t cell, index_t width) {
  auto s = backend::zero_sums(groups, p.distributions.size());
  s.heatmap_width = width;
  s.heatmap_sum.resize(static_cast<std::size_t>(width * width));
  s.heatmap_weight = s.heatmap_sum;
  for (index_t l = 0; l < s.distributions; ++l) {
    const auto& scores = p.distributions[l];
    for (index_t g = 0; g < s.groups && !scores.empty(); ++g) {
      const auto range = admissible(groups, g, scores);
      const index_t first = groups.offset[g];
      for (index_t j = range.begin + 1; j < range.end; ++j)
        for (index_t i = range.begin; i < j; ++i) {
          std::vector<double> delta;
          for (index_t c = 0; c < k.dim; ++c) delta.push_back(k.head(0)(first + i, c) - k.head(0)(first + j, c));
          const double m = dense::dot(scores.mean, delta);
          double v = 0;
          const auto reflected = reflect(p.reflector, delta);
          for (std::size_t c = 0; c < scores.variance.size(); ++c)
            v += scores.variance[c] * reflected[c] * reflected[c];
          for (index_t c = 0; c < scores.rank; ++c) {
            double z = 0;
            for (index_t a = 0; a < k.dim; ++a) z += scores.factor[a * scores.rank + c] * delta[a];
            v += z * z;
          }
          const std::int32_t ti = groups.position[first + i], tj = groups.position[first + j];
          const auto document = static_cast<std::int32_t>(g);
          const key_pair pair{i - range.begin, j - range.begin, range.size(), ti, tj, document, document, scores.tau};
          const double w = weight ? weight(pair) : 1.0;
          s.sum[s.at(l, g)] += w * pair_plasticity(m, v);
          s.weight[s.at(l, g)] += w;
          const auto back =
              static_cast<index_t>(std::floor((scores.tau - 0.5 * (ti + tj)) / static_cast<double>(cell)));
          if (back < 0 || back >= width) continue;
          const auto at = static_cast<std::size_t>((tj - ti) / cell * width + back);
          s.heatmap_sum[at] += w * pair_plasticity(m, v);
          s.heatmap_weight[at] += w;
        }
    }
  }
  return s;
}

}  // namespace qkgeom::test
