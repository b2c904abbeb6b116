// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "qkgeom/linalg/needles.hpp"
#include "qkgeom/linalg/products.hpp"
#include "qkgeom/linalg/scores.hpp"

namespace qkgeom::linalg {

inline index_t count_above(const float* begin, const float* end, float s) {
  return std::count_if(begin, end, [s](float x) { return x > s; });
}

/// Returns what std::max_element does, by a branch that is seldom taken where g++ makes a chain of conditional moves.
inline const float* first_largest(const float* begin, const float* end) {
  float top = *begin;
  const float* at = begin;
  for (const float* x = begin; x != end; ++x)
    if (*x > top) [[unlikely]] {
      top = *x;
      at = x;
    }
  return at;
}

QKGEOM_INLINE std::vector<needle_scores> score_needles(const needle_plan& plan, const needle_document& document,
                                                       const std::vector<float>& q, const std::vector<float>& k,
                                                       index_t d) {
  const auto queries = std::ssize(document.row), shells = std::ssize(plan.weight);
  const index_t tokens = document.tokens, m = tokens - plan.first, width = round_up(m, score_lanes);
  const auto& planes = plan.rotation.planes;
  const table_rotation rotate{planes.data(), std::ssize(planes), plan.rotation.first, plan.cos_sin.data()};
  // Returns the rows of x (n, d), row i at position number to(i).
  const auto rotated = [&](const float* x, index_t n, const auto& to) {
    std::vector<float> y(n * d);
    for (index_t i = 0; i < n; ++i)
      for (index_t slot = 0; slot < rotate.slots(d); ++slot) rotate(to(i), slot, x + i * d, y.data() + i * d);
    return y;
  };
  const auto near_k = rotated(k.data(), tokens, [&](index_t t) { return plan.own + t; });
  std::vector<float> far_k(shells * width * d), sinks;
  for (index_t i = 0; i < shells; ++i) {
    const auto rows =
        rotated(k.data() + plan.first * d, m, [&](index_t j) { return plan.far + i * plan.far_keys + j; });
    std::copy(rows.begin(), rows.end(), far_k.begin() + i * width * d);
    if (!plan.sinks) continue;
    const auto first = rotated(k.data(), plan.first, [&](index_t t) { return *plan.sinks + i * plan.first + t; });
    sinks.insert(sinks.end(), first.begin(), first.end());
  }
  std::vector<float> near(queries * tokens), far(queries * shells * width), of_sinks(queries * shells * plan.first),
      share(width);
  std::vector<needle_scores> result(q.size() / (queries * d));
  for (std::size_t h = 0; h < result.size(); ++h) {
    const float* const rows = q.data() + static_cast<index_t>(h) * queries * d;
    const auto still = rotated(rows, queries, [&](index_t) { return plan.own; });
    row_products(rotated(rows, queries, [&](index_t c) { return plan.own + document.at[c]; }).data(), queries,
                 near_k.data(), tokens, d, near.data());
    auto& found = result[h];
    for (index_t i = 0; i < shells; ++i) {
      float* const scores = far.data() + i * queries * width;
      if (plan.weight[i] > 0) row_products(still.data(), queries, far_k.data() + i * width * d, width, d, scores);
      for (index_t c = 0; c < queries; ++c) {
        std::fill(scores + c * width + m, scores + (c + 1) * width, no_score);
        found.excess.push_back(excess_of(scores + c * width, m));
      }
    }
    if (plan.sinks) row_products(still.data(), queries, sinks.data(), shells * plan.first, d, of_sinks.data());
    for (const needle& one : document.needles) {
      const float *const begin = near.data() + one.query * tokens, *const end = begin + document.at[one.query];
      const index_t key = one.key >= 0 ? one.key : first_largest(end - plan.near, end - plan.nearest) - begin;
      float s = begin[key];
      if (one.moved >= 0) {
        const auto moved = rotated(k.data() + key * d, 1, [&](index_t) { return one.moved; });
        s = std::inner_product(moved.begin(), moved.end(), still.begin() + one.query * d, 0.f);
      }
      const auto first_window = found.near.size();
      found.score.push_back(s);
      for (const index_t n : document.windows)  // a needle that is moved stands elsewhere
        found.near.push_back(count_above(end - n, end, s) - (begin + key >= end - n && begin[key] > s ? 1 : 0));
      found.near.push_back(count_above(begin, begin + plan.first, s));
      found.far.resize(found.score.size() * shells);
      if (found.near[first_window] > one.most) continue;
      std::fill(share.begin(), share.end(), 0.f);
      for (index_t i = 0; i < shells; ++i) {
        const float* const v = far.data() + (i * queries + one.query) * width;
        const float* const first = of_sinks.data() + (one.query * shells + i) * plan.first;
        auto& split = found.far[(found.score.size() - 1) * shells + i];
        split.own = v[key - plan.first];
        split.first = plan.sinks ? count_above(first, first + plan.first, s) : 0;
        if (s > found.excess[i * queries + one.query].top || !(plan.weight[i] > 0)) continue;
        split.scores = split_at(v, width, s, static_cast<float>(plan.weight[i]), share.data());
        split.scores.square -= share[key - plan.first] * share[key - plan.first];
      }
    }
  }
  return result;
}

}  // namespace qkgeom::linalg
