// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qkgeom/linalg/scores.hpp"

namespace qkgeom::linalg {

QKGEOM_INLINE split_scores split_at(const float* __restrict scores, index_t n, float threshold, float weight,
                                    float* __restrict share) {
  float count[score_lanes] = {}, above[score_lanes], below[score_lanes], square[score_lanes] = {};
  std::fill_n(above, score_lanes, -no_score);
  std::fill_n(below, score_lanes, no_score);
  for (index_t j = 0; j < n; j += score_lanes)
    for (index_t l = 0; l < score_lanes; ++l) {
      const float x = scores[j + l], hit = x > threshold ? 1.f : 0.f;
      const float high = x > threshold ? x : -no_score, low = x > threshold ? no_score : x;
      share[j + l] += hit * weight;
      square[l] += share[j + l] * share[j + l];
      count[l] += hit;
      above[l] = high < above[l] ? high : above[l];
      below[l] = low > below[l] ? low : below[l];
    }
  split_scores all;
  for (index_t l = 0; l < score_lanes; ++l) {
    all.count += count[l];
    all.square += square[l];
    all.above = std::min(all.above, above[l]);
    all.below = std::max(all.below, below[l]);
  }
  return all;
}

QKGEOM_INLINE score_excess excess_of(const float* __restrict scores, index_t n) {
  const float first = scores[0];
  float top[score_lanes], a[score_lanes] = {}, b[score_lanes] = {}, c[score_lanes] = {};
  std::fill_n(top, score_lanes, no_score);
  const auto sum = [](const float* x) { return std::accumulate(x, x + score_lanes, 0.0); };
  for (index_t j = 0; j < n; j += score_lanes)
    for (index_t l = 0; l < score_lanes; ++l) {
      const float score = scores[j + l], real = score > no_score ? 1.f : 0.f, x = real * (score - first);
      top[l] = score > top[l] ? score : top[l];
      a[l] += x;
      b[l] += x * x;
    }
  score_excess e;
  const double mean = sum(a) / static_cast<double>(n);
  e.top = *std::max_element(top, top + score_lanes);
  e.start = first + mean + 1.5 * std::sqrt(std::max(0.0, sum(b) / static_cast<double>(n) - mean * mean));
  const auto start = static_cast<float>(e.start);
  std::fill_n(a, score_lanes, 0.f);
  std::fill_n(b, score_lanes, 0.f);
  for (index_t j = 0; j < n; j += score_lanes)
    for (index_t l = 0; l < score_lanes; ++l) {
      const float score = scores[j + l], hit = score > start ? 1.f : 0.f, y = hit * (score - start);
      a[l] += y;
      b[l] += y * y;
      c[l] += hit;
    }
  e.count = sum(c);
  e.sum = sum(a);
  e.square = sum(b);
  return e;
}

}  // namespace qkgeom::linalg
