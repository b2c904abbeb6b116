// SPDX-License-Identifier: MIT
#include "capture/forward/attention/attention.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "capture/forward/attention/attention_blocks.hpp"
#include "capture/forward/attention/attention_tiles.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

using namespace attention_blocks;
using simd::floats;
using simd::ints;

/// Returns the keys of a block. In f32 a block fits the first-level cache.
constexpr index_t block_size(bool to_bf16) { return to_bf16 ? bf16_block : 64; }

/// One block's working memory, reused by the blocks of a thread.
struct scratch {
  std::vector<float> q, out, scores;  // (d, rows), (d, rows), (keys, rows)

  scratch(index_t dim, index_t keys)
      : q(static_cast<std::size_t>(dim * rows)),
        out(static_cast<std::size_t>(dim * rows)),
        scores(static_cast<std::size_t>(keys * rows)) {}
};

struct row_block {
  ints position[vectors];
  floats top[vectors], sum[vectors];
};

/// Rescales the sums so far and `out` to new maxima.
void raise_tops(row_block& r, const floats (&top)[vectors], index_t dim, float* out) {
  for (int v = 0; v < vectors; ++v) {
    const floats higher = simd::max(r.top[v], top[v]);
    if (simd::equal(higher, r.top[v])) continue;
    const floats factor = simd::exp2(r.top[v] - higher);
    for (index_t c = 0; c < dim; ++c) {
      float* o = out + c * rows + v * simd::lanes;
      simd::store(o, simd::load(o) * factor);
    }
    r.sum[v] *= factor;
    r.top[v] = higher;
  }
}

/// Turns scores into weights 2^(score - top). With `Bf16` the weights are rounded, their sum is not.
template <bool Bf16>
void weigh(row_block& r, index_t keys, float* scores) {
  floats base[vectors], sum[vectors];
  simd::unrolled<vectors>([&](auto v) { base[v] = r.top[v], sum[v] = r.sum[v]; });
  for (index_t j = 0; j < keys; ++j)
    simd::unrolled<vectors>([&](auto v) {
      float* s = scores + j * rows + v * simd::lanes;
      const floats x = simd::load(s) - base[v];
      const floats p = Bf16 ? simd::exp2_rough(x) : simd::exp2(x);
      simd::store(s, Bf16 ? simd::round_finite_to_bf16(p) : p);
      sum[v] += p;
    });
  simd::unrolled<vectors>([&](auto v) { r.sum[v] = sum[v]; });
}

/// Sets the weights of hidden keys to 0: a row that has seen no key yet has given each of them the weight 1.
void clear_hidden(row_block& r, std::int32_t first, index_t keys, std::int32_t window, float* scores) {
  for (std::int32_t j = 0; j < keys; ++j)
    for (int v = 0; v < vectors; ++v) {
      float* s = scores + j * rows + v * simd::lanes;
      const floats p = simd::load(s);
      const floats kept = sees(r.position[v], first + j, window) ? p : floats{};
      r.sum[v] -= p - kept;
      simd::store(s, kept);
    }
}

/// Adds values^T (dim, keys) weights (keys, rows) to out (dim, rows).
void add_values(const float* values, index_t keys, index_t dim, const float* weights, float* out) {
  if constexpr (by_blas) return add_product_of_transposed(dim, rows, keys, values, weights, out);
  for (index_t c = 0; c < dim; c += tile) {
    floats acc[tile][vectors];
    simd::unrolled<tile>([&](auto i) {
      simd::unrolled<vectors>([&](auto v) { acc[i][v] = simd::load(out + (c + i) * rows + v * simd::lanes); });
    });
    for (index_t j = 0; j < keys; ++j) {
      floats p[vectors];
      simd::unrolled<vectors>([&](auto v) { p[v] = simd::load(weights + j * rows + v * simd::lanes); });
      simd::unrolled<tile>([&](auto i) {
        const float value = values[j * dim + c + i];
        simd::unrolled<vectors>([&](auto v) { acc[i][v] += value * p[v]; });
      });
    }
    simd::unrolled<tile>([&](auto i) {
      simd::unrolled<vectors>([&](auto v) { simd::store(out + (c + i) * rows + v * simd::lanes, acc[i][v]); });
    });
  }
}

/// Starts rows before their first key. A row begins with its head's sink as the only weight, 1.
row_block begin_rows(const query_rows<float>& from, float scale, const float* sinks, scratch& s) {
  row_block r;
  load_queries(from, scale, s.q, r.position);
  std::fill(s.out.begin(), s.out.end(), 0.0f);
  for (int v = 0; v < vectors; ++v) r.top[v] = simd::all(masked), r.sum[v] = floats{};
  for (index_t i = 0; sinks && i < rows; ++i) {
    r.top[i / simd::lanes][i % simd::lanes] =
        static_cast<float>(std::numbers::log2e) * sinks[from.head(std::min(i, from.count - 1))];
    r.sum[i / simd::lanes][i % simd::lanes] = 1;
  }
  return r;
}

/// Runs over the keys that the rows see, block by block.
template <bool Bf16>
void attend(const query_rows<float>& queries, const float* k, const float* v, index_t dim, std::int32_t window,
            float cap, row_block& r, scratch& s) {
  const index_t low = queries.position(0), high = queries.position(queries.count - 1), size = block_size(Bf16);
  for (index_t j = std::max<index_t>(0, low - window + 1) / size * size; j <= high; j += size) {
    const index_t keys = std::min(size, round_up(high + 1 - j, key_tile));
    floats top[vectors];
    simd::unrolled<vectors>([&](auto x) { top[x] = simd::all(masked); });
    score_block(s.q.data(), k + j * dim, keys, dim, s.scores.data(), top);
    if (cap > 0) cap_block(keys, cap, s.scores.data(), top);
    const bool partial = j + keys - 1 > low || high - window >= j;
    if (partial) mask_block(r.position, static_cast<std::int32_t>(j), keys, window, s.scores.data(), top);
    raise_tops(r, top, dim, s.out.data());
    // The weights are used while they are in the first-level cache.
    for (index_t i = 0; i < keys; i += key_tile) {
      float* const scores = s.scores.data() + i * rows;
      weigh<Bf16>(r, key_tile, scores);
      if (partial) clear_hidden(r, static_cast<std::int32_t>(j + i), key_tile, window, scores);
      add_values(v + (j + i) * dim, key_tile, dim, scores, s.out.data());
    }
  }
}

/// Divides by the sums of the weights and writes the rows over the queries.
void store_result(const query_rows<float>& to, const row_block& r, bool to_bf16, scratch& s) {
  for (int x = 0; x < vectors; ++x) {
    const floats inverse = 1.0f / r.sum[x];
    for (index_t c = 0; c < to.q.dim; ++c) {
      float* o = s.out.data() + c * rows + x * simd::lanes;
      const floats y = simd::load(o) * inverse;
      simd::store(o, to_bf16 ? simd::round_to_bf16(y) : y);
    }
  }
  for (index_t i = 0; i < to.count; ++i)
    for (index_t c = 0; c < to.q.dim; ++c) to.row(i)[c] = s.out[c * rows + i];
}

}  // namespace

void key_buffer::reshape(index_t tokens, index_t heads, index_t dim) {
  tokens_ = tokens, heads_ = heads, dim_ = dim;
  padded_tokens_ = round_up(tokens, key_tile);
  padded_dim_ = round_up(dim, channel_tile);
  data_.assign(heads * padded_tokens_ * padded_dim_, 0.0f);
}

void causal_attention(thread_pool& pool, tensor_view<float> q, const key_buffer& k, const key_buffer& v,
                      index_t key_heads, const attention_options& options) {
  require(key_heads > 0 && q.heads % key_heads == 0, "query heads (", q.heads, ") must be a multiple of key heads (",
          key_heads, ")");
  const auto window = static_cast<std::int32_t>(std::min(options.window.value_or(q.rows), q.rows));
  const double score_scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.dim)));
  const auto scale = static_cast<float>(std::numbers::log2e * score_scale);
  const auto cap = static_cast<float>(std::numbers::log2e * options.cap);
  const tile_unit unit = tile_unit_of(options.kernel);
  if (options.to_bf16 && unit != tile_unit::none)
    return causal_attention_tiles(unit, pool, q, k, v, key_heads, {window, scale, cap, options.sinks});
  const index_t group = q.heads / key_heads, dim = k.padded_dim(), total = q.rows * group;
  const index_t blocks = (total + rows - 1) / rows;
  std::vector<scratch> scratches(pool.size(), scratch(dim, block_size(options.to_bf16)));
  std::vector<index_t> heads(q.heads);
  std::iota(heads.begin(), heads.end(), index_t{0});

  pool.for_each(blocks * key_heads, [&](index_t task, int thread) {  // the last and longest blocks first
    const index_t kv = task % key_heads, block = blocks - 1 - task / key_heads;
    scratch& s = scratches[thread];
    const query_rows<float> rows_here{q, heads.data() + kv * group, group, block * rows,
                                      std::min(rows, total - block * rows)};
    row_block r = begin_rows(rows_here, scale, options.sinks, s);
    if (options.to_bf16)
      attend<true>(rows_here, k.head(kv), v.head(kv), dim, window, cap, r, s);
    else
      attend<false>(rows_here, k.head(kv), v.head(kv), dim, window, cap, r, s);
    store_result(rows_here, r, options.to_bf16, s);
  });
}

}  // namespace qkgeom
