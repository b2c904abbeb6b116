// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <numbers>
#include <vector>

#include "capture/forward/attention/attention_rows.hpp"
#include "capture/forward/products/blas.hpp"
#include "capture/forward/products/simd.hpp"

/// Scores of blocks of queries and keys in f32. Include this only in files that no unity build joins with others.
namespace qkgeom::attention_blocks {

using simd::floats;
using simd::ints;

// A block is `rows` queries against some keys, transposed: the lanes of a vector are queries, so that maxima and sums
// run down the lanes and keys and values are read as scalars where they lie. A row is a query of one head; the heads of
// a group follow one another, since they read the same keys. A register tile is `vectors` x `tile`. A build for every
// CPU has short vectors only, while BLAS has kernels for the CPU it runs on: there BLAS computes the products.
inline constexpr bool by_blas = simd::lanes == 4;
inline constexpr int vectors = by_blas ? 12 : simd::registers == 32 ? 3 : 2;
inline constexpr int tile = simd::registers == 32 ? 8 : 4;
inline constexpr int channel_tile = 8;  // padding of a head, whatever the register tile
inline constexpr index_t rows = vectors * simd::lanes;

static_assert(key_tile % tile == 0 && channel_tile % tile == 0);

/// Computes the scores of all rows with `keys` keys, and the largest score of each row.
inline void score_block(const float* q, const float* k, index_t keys, index_t dim, float* scores,
                        floats (&top)[vectors]) {
  if constexpr (by_blas) {
    for (index_t j = 0; j < keys; j += key_tile) multiply(key_tile, rows, dim, k + j * dim, q, scores + j * rows);
    for (index_t j = 0; j < keys; ++j)
      for (int v = 0; v < vectors; ++v) top[v] = simd::max(top[v], simd::load(scores + j * rows + v * simd::lanes));
    return;
  }
  for (index_t j = 0; j < keys; j += tile) {
    floats acc[tile][vectors] = {};
    for (index_t c = 0; c < dim; ++c) {
      floats x[vectors];
      simd::unrolled<vectors>([&](auto v) { x[v] = simd::load(q + c * rows + v * simd::lanes); });
      simd::unrolled<tile>([&](auto i) {
        const float key = k[(j + i) * dim + c];
        simd::unrolled<vectors>([&](auto v) { acc[i][v] += key * x[v]; });
      });
    }
    simd::unrolled<tile>([&](auto i) {
      simd::unrolled<vectors>([&](auto v) {
        simd::store(scores + (j + i) * rows + v * simd::lanes, acc[i][v]);
        top[v] = simd::max(top[v], acc[i][v]);
      });
    });
  }
}

/// Returns c tanh(x / c) = c (1 - e) / (1 + e) with e = exp(-2 |x| / c) and the sign of x; error at most 1e-7 c.
inline floats capped(floats x, float c) {
  constexpr auto factor = static_cast<float>(-2 * std::numbers::log2e);
  const floats e = simd::exp2(simd::max(x, -x) * (factor / c)), y = (1.0f - e) / (1.0f + e) * c;
  return x < floats{} ? -y : y;
}

/// Multiplies scores by `scale` and caps them.
inline void cap_scores(index_t n, float scale, float cap, float* scores) {
  for (index_t i = 0; i < n; i += simd::lanes) simd::store(scores + i, capped(simd::load(scores + i) * scale, cap));
}

/// Caps the scores of a block and the largest score of each row.
inline void cap_block(index_t keys, float cap, float* scores, floats (&top)[vectors]) {
  cap_scores(keys * rows, 1, cap, scores);
  for (floats& t : top) t = capped(t, cap);
}

/// Returns the lanes of `position` that see key `j`.
inline ints sees(ints position, std::int32_t j, std::int32_t window) {
  return (position >= j) & (position - window < j);
}

/// Sets the scores that the mask hides to `masked` and finds the maxima of the others.
inline void mask_block(const ints (&position)[vectors], std::int32_t first, index_t keys, std::int32_t window,
                       float* scores, floats (&top)[vectors]) {
  for (int v = 0; v < vectors; ++v) top[v] = simd::all(masked);
  for (std::int32_t j = 0; j < keys; ++j)
    for (int v = 0; v < vectors; ++v) {
      float* s = scores + j * rows + v * simd::lanes;
      const floats x = sees(position[v], first + j, window) ? simd::load(s) : simd::all(masked);
      simd::store(s, x);
      top[v] = simd::max(top[v], x);
    }
}

/// Writes queries times `scale`, transposed to (dim, rows), and their positions; missing rows are zero and get the
/// position of the last row.
template <class T>
void load_queries(const query_rows<T>& from, float scale, std::vector<float>& q, ints (&position)[vectors]) {
  std::fill(q.begin(), q.end(), 0.0f);
  for (index_t i = 0; i < rows; ++i) {
    position[i / simd::lanes][i % simd::lanes] = static_cast<std::int32_t>(from.position(std::min(i, from.count - 1)));
    if (i >= from.count) continue;
    for (index_t c = 0; c < from.q.dim; ++c) q[c * rows + i] = from.row(i)[c] * scale;
  }
}

}  // namespace qkgeom::attention_blocks
