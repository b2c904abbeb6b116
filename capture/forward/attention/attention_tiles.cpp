// SPDX-License-Identifier: MIT
#include "capture/forward/attention/attention_tiles.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "capture/forward/attention/attention_blocks.hpp"
#include "capture/forward/attention/attention_rows.hpp"
#include "capture/forward/products/pair_products.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {

#if defined(QKGEOM_HAS_TILES)
namespace {

// A block is `rows` queries against some keys, transposed: scores (keys, rows) = keys (keys, d) x queries (d, rows).
// The first factor of a tile product lies as it is, (16, 32); the second in pairs: a 32-bit word holds the entries of
// two following rows, low half first, so 32 rows of 16 columns are a tile.
constexpr index_t vectors = 4;
constexpr index_t rows = vectors * tiles::tile;
constexpr index_t pair_rows = tiles::channels / 2;

/// Keys and values of a layer as the first factors of tile products, zero padded.
class packed_keys {
 public:
  packed_keys(const key_buffer& k, const key_buffer& v, index_t key_heads, index_t tokens, thread_pool& pool)
      : dim_(round_up(k.padded_dim(), tiles::channels)),
        tokens_(round_up(tokens, key_tile)),
        k_(static_cast<std::size_t>(key_heads * tokens_ * dim_)),
        v_(k_.size()) {
    const index_t tiles = tokens_ / tiles::channels, from_dim = k.padded_dim();
    pool.for_each(key_heads * tiles, [&](index_t task, int) {
      const index_t h = task / tiles, first = task % tiles * tiles::channels;
      for (index_t j = first; j < first + tiles::channels; ++j)
        for (index_t c = 0; c < from_dim; ++c) {
          k_[(h * tokens_ + j) * dim_ + c] = bf16::round(k.head(h)[j * from_dim + c]);
          v_[(h * tokens_ + first) * dim_ + c * tiles::channels + j - first] = bf16::round(v.head(h)[j * from_dim + c]);
        }
    });
  }
  /// Returns the padded channels of a head, a multiple of 32.
  index_t dim() const { return dim_; }
  /// Returns the keys of `head` from key j on, (keys, dim).
  const bf16* keys(index_t head, index_t j) const { return k_.data() + (head * tokens_ + j) * dim_; }
  /// Returns the values of the 32 keys from j on, (dim, 32); j is a multiple of 32.
  const bf16* values(index_t head, index_t j) const { return v_.data() + (head * tokens_ + j) * dim_; }

 private:
  index_t dim_, tokens_;
  tiles::line_vector<bf16> k_, v_;
};

/// A thread's working memory.
struct workspace {
  tiles::line_vector<std::uint32_t> q, weights;  // (dim / 2, rows), (key_tile / 2, rows)
  tiles::line_vector<float> out, scores;         // (dim, rows), (bf16_block, rows)

  explicit workspace(index_t dim)
      : q(static_cast<std::size_t>(dim / 2 * rows)),
        weights(static_cast<std::size_t>(key_tile / 2 * rows)),
        out(static_cast<std::size_t>(dim * rows)),
        scores(static_cast<std::size_t>(bf16_block * rows)) {}
};

struct row_state {
  __m512i position[vectors];
  __m512 top[vectors], sum[vectors];  // the largest score so far, before the scale; the sum of 2^(scale (score - top))
};

/// Returns the factor that brings scores to base 2; capped scores have it already.
float scale_of(const tile_attention& how) { return how.cap > 0 ? 1 : how.scale; }

/// Loads queries in pairs of channels; missing rows are zero and get the position of the last row. A row begins with
/// its head's sink as the only weight, 1.
QKGEOM_TILE_TARGET row_state load_queries(const query_rows<float>& from, const tile_attention& how, workspace& w) {
  row_state r;
  std::fill(w.q.begin(), w.q.end(), 0u);
  std::fill(w.out.begin(), w.out.end(), 0.0f);
  alignas(64) std::int32_t position[rows];
  alignas(64) float top[rows];
  for (index_t i = 0; i < rows; ++i) {
    const index_t row = std::min(i, from.count - 1);
    position[i] = static_cast<std::int32_t>(from.position(row));
    top[i] = how.sinks ? static_cast<float>(std::numbers::log2e) * how.sinks[from.head(row)] / scale_of(how) : masked;
    if (i >= from.count) continue;
    const float* x = from.row(i);
    for (index_t c = 0; c < from.q.dim; ++c)
      w.q[c / 2 * rows + i] |= static_cast<std::uint32_t>(bf16::round(x[c]).bits) << (c % 2 * 16);
  }
  for (index_t v = 0; v < vectors; ++v) {
    r.position[v] = _mm512_load_si512(position + v * tiles::tile);
    r.top[v] = _mm512_load_ps(top + v * tiles::tile);
    r.sum[v] = _mm512_set1_ps(how.sinks ? 1 : 0);
  }
  return r;
}

/// Adds a (2 x 16, 32 steps) b (32 steps, rows) to c (2 x 16, rows); with `Fresh` c is overwritten. The second 16 rows
/// of a lie `a_second` elements behind the first, a step `a_step` behind the one before.
template <bool Fresh>
QKGEOM_TILE_TARGET void multiply(tile_unit unit, const bf16* a, index_t a_row, index_t a_second, index_t a_step,
                                 const std::uint32_t* b, index_t steps, float* c) {
  if (unit != tile_unit::amx) {
    constexpr index_t together = 4;  // with four columns, sums that stay in registers and hide the latency
    const auto word = [b](index_t s, index_t pair, index_t v) {
      return b + (s * pair_rows + pair) * rows + v * tiles::tile;
    };
    for (index_t r = 0; r < 2 * tiles::tile; r += together)
      tiles::multiply_pairs<together, vectors, Fresh>(a + r / tiles::tile * a_second + r % tiles::tile * a_row, a_row,
                                                      a_step, steps, word, c + r * rows, rows);
    return;
  }
  constexpr index_t row_bytes = rows * 4;
  tiles::stores_are_done();
  for (index_t v = 0; v < rows; v += 2 * tiles::tile) {
    float* const c1 = c + tiles::tile * rows;
    if constexpr (Fresh) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    } else {
      _tile_loadd(0, c + v, row_bytes);
      _tile_loadd(1, c + v + tiles::tile, row_bytes);
      _tile_loadd(2, c1 + v, row_bytes);
      _tile_loadd(3, c1 + v + tiles::tile, row_bytes);
    }
    for (index_t s = 0; s < steps; ++s) {
      _tile_loadd(4, a + s * a_step, a_row * 2);
      _tile_loadd(6, b + s * pair_rows * rows + v, row_bytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + s * pair_rows * rows + v + tiles::tile, row_bytes);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, a + s * a_step + a_second, a_row * 2);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c + v, row_bytes);
    _tile_stored(1, c + v + tiles::tile, row_bytes);
    _tile_stored(2, c1 + v, row_bytes);
    _tile_stored(3, c1 + v + tiles::tile, row_bytes);
  }
}

/// Returns the lanes that see key j.
QKGEOM_TILE_TARGET inline __mmask16 sees(__m512i position, std::int32_t j, std::int32_t window) {
  return _mm512_cmplt_epu32_mask(_mm512_sub_epi32(position, _mm512_set1_epi32(j)), _mm512_set1_epi32(window));
}

/// Finds the largest of `top` and of the scores (keys, rows) that the rows see.
template <bool Partial>
QKGEOM_TILE_TARGET void find_tops(const row_state& r, const float* scores, index_t keys, std::int32_t first,
                                  std::int32_t window, __m512 (&top)[vectors]) {
  for (index_t j = 0; j < keys; ++j)
#pragma GCC unroll 4
    for (index_t v = 0; v < vectors; ++v) {
      const __m512 s = _mm512_loadu_ps(scores + j * rows + v * tiles::tile);
      if constexpr (Partial)
        top[v] =
            _mm512_mask_max_ps(top[v], sees(r.position[v], first + static_cast<std::int32_t>(j), window), top[v], s);
      else
        top[v] = _mm512_max_ps(top[v], s);
    }
}

/// Returns 2^x for x <= 0 with a relative error of at most 1.1e-4, as simd::exp2_rough: half a unit of bf16 is 2e-3.
QKGEOM_TILE_TARGET inline __m512 exp2_rough(__m512 x) {
  constexpr float unit = 8388608.0f;  // 2^23: the lowest bit of the exponent
  x = _mm512_max_ps(x, _mm512_set1_ps(-126.0f));
  const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  __m512 g =
      _mm512_fmadd_ps(f, _mm512_set1_ps(0.07920424020706318f * unit), _mm512_set1_ps(0.22433836480620076f * unit));
  g = _mm512_fmadd_ps(f, g, _mm512_set1_ps(-0.3035426050132639f * unit));
  const __m512 whole = _mm512_fmadd_ps(x, _mm512_set1_ps(unit), _mm512_set1_ps((127 - 0.00010703434811518557f) * unit));
  return _mm512_castsi512_ps(_mm512_cvtps_epi32(_mm512_fmadd_ps(f, g, whole)));
}

/// Rescales the sums so far and `out` to new maxima.
QKGEOM_TILE_TARGET void raise_tops(row_state& r, const __m512 (&top)[vectors], __m512 scale, index_t dim, float* out) {
  for (index_t v = 0; v < vectors; ++v) {
    if (_mm512_cmp_ps_mask(top[v], r.top[v], _CMP_GT_OQ) == 0) continue;
    const __m512 factor = exp2_rough(_mm512_mul_ps(_mm512_sub_ps(r.top[v], top[v]), scale));
    // Keeps the sums of rows whose maximum stays, to the bit.
    const __mmask16 higher = _mm512_cmp_ps_mask(top[v], r.top[v], _CMP_GT_OQ);
    for (index_t c = 0; c < dim; ++c) {
      float* o = out + c * rows + v * tiles::tile;
      const __m512 x = _mm512_loadu_ps(o);
      _mm512_storeu_ps(o, _mm512_mask_mul_ps(x, higher, x, factor));
    }
    r.sum[v] = _mm512_mask_mul_ps(r.sum[v], higher, r.sum[v], factor);
    r.top[v] = top[v];
  }
}

/// Turns scores (key_tile, rows) into weights 2^(scale (score - top)), rounded, in pairs of keys; sums them unrounded.
template <bool Partial>
QKGEOM_TILE_TARGET void weigh(row_state& r, const float* scores, __m512 scale, std::int32_t first, std::int32_t window,
                              std::uint32_t* weights) {
  // Interleaves two vectors of 16 rounded weights to 16 words.
  alignas(64) static constexpr std::uint16_t interleaved[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                                21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                                11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i order = _mm512_load_si512(interleaved);
  __m512 base[vectors], sum[vectors];
  for (index_t v = 0; v < vectors; ++v) base[v] = _mm512_mul_ps(r.top[v], scale), sum[v] = r.sum[v];
  for (std::int32_t j = 0; j < key_tile; j += 2)
#pragma GCC unroll 4
    for (index_t v = 0; v < vectors; ++v) {
      const float* s = scores + j * rows + v * tiles::tile;
      const __m512 x = _mm512_fmsub_ps(_mm512_loadu_ps(s), scale, base[v]);
      const __m512 y = _mm512_fmsub_ps(_mm512_loadu_ps(s + rows), scale, base[v]);
      __m512 low = exp2_rough(x), high = exp2_rough(y);
      if constexpr (Partial) {
        low = _mm512_maskz_mov_ps(sees(r.position[v], first + j, window), low);
        high = _mm512_maskz_mov_ps(sees(r.position[v], first + j + 1, window), high);
      }
      sum[v] = _mm512_add_ps(_mm512_add_ps(sum[v], low), high);
      const __m512i pairs = _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(high, low));
      _mm512_storeu_si512(weights + j / 2 * rows + v * tiles::tile, pairs);
    }
  for (index_t v = 0; v < vectors; ++v) r.sum[v] = sum[v];
}

/// Runs over the keys that the rows see, block by block.
QKGEOM_TILE_TARGET void attend(tile_unit unit, const query_rows<float>& queries, const packed_keys& packed,
                               index_t head, const tile_attention& how, row_state& r, workspace& w) {
  const std::int32_t window = how.window;
  const index_t low = queries.position(0), high = queries.position(queries.count - 1), dim = packed.dim();
  const __m512 scale = _mm512_set1_ps(scale_of(how));
  // Returns whether a row does not see all of the `keys` keys from j on.
  const auto partial = [&](index_t j, index_t keys) { return j + keys - 1 > low || high - window >= j; };
  for (index_t j = std::max<index_t>(0, low - window + 1) / bf16_block * bf16_block; j <= high; j += bf16_block) {
    const index_t keys = std::min(bf16_block, round_up(high + 1 - j, key_tile));
    __m512 top[vectors];
    for (index_t v = 0; v < vectors; ++v) top[v] = r.top[v];
    for (index_t i = 0; i < keys; i += 2 * tiles::tile) {
      float* const scores = w.scores.data() + i * rows;
      multiply<true>(unit, packed.keys(head, j + i), dim, tiles::tile * dim, tiles::channels, w.q.data(),
                     dim / tiles::channels, scores);
      if (how.cap > 0) attention_blocks::cap_scores(2 * tiles::tile * rows, how.scale, how.cap, scores);
      const auto first = static_cast<std::int32_t>(j + i);
      if (partial(j + i, 2 * tiles::tile))
        find_tops<true>(r, scores, 2 * tiles::tile, first, window, top);
      else
        find_tops<false>(r, scores, 2 * tiles::tile, first, window, top);
    }
    raise_tops(r, top, scale, dim, w.out.data());
    // The weights are used while they are in the first-level cache.
    for (index_t i = 0; i < keys; i += key_tile) {
      const float* const scores = w.scores.data() + i * rows;
      const auto first = static_cast<std::int32_t>(j + i);
      if (partial(j + i, key_tile))
        weigh<true>(r, scores, scale, first, window, w.weights.data());
      else
        weigh<false>(r, scores, scale, first, window, w.weights.data());
      for (index_t c = 0; c < dim; c += 2 * tiles::tile)
        multiply<false>(unit, packed.values(head, j + i) + c * tiles::channels, tiles::channels,
                        tiles::tile * tiles::channels, tiles::channels * dim, w.weights.data(),
                        key_tile / tiles::channels, w.out.data() + c * rows);
    }
  }
}

/// Divides by the sums of the weights and writes the rows, rounded, over the queries.
QKGEOM_TILE_TARGET void store_result(const query_rows<float>& to, const row_state& r, const workspace& w) {
  alignas(64) float inverse[rows];
  for (index_t v = 0; v < vectors; ++v)
    _mm512_store_ps(inverse + v * tiles::tile, _mm512_div_ps(_mm512_set1_ps(1), r.sum[v]));
  for (index_t i = 0; i < to.count; ++i)
    for (index_t c = 0; c < to.q.dim; ++c) to.row(i)[c] = bf16::round(w.out[c * rows + i] * inverse[i]);
}

QKGEOM_TILE_TARGET void attend_block(tile_unit unit, const query_rows<float>& queries, const packed_keys& packed,
                                     index_t head, const tile_attention& how, workspace& w) {
  static constexpr tiles::tile_shapes shapes;
  tiles::begin(unit, shapes);
  row_state r = load_queries(queries, how, w);
  attend(unit, queries, packed, head, how, r, w);
  store_result(queries, r, w);
  tiles::end(unit);
}

}  // namespace

void causal_attention_tiles(tile_unit unit, thread_pool& pool, tensor_view<float> q, const key_buffer& k,
                            const key_buffer& v, index_t key_heads, const tile_attention& how) {
  const index_t group = q.heads / key_heads, total = q.rows * group, blocks = (total + rows - 1) / rows;
  const packed_keys packed(k, v, key_heads, q.rows, pool);
  std::vector<workspace> workspaces(pool.size(), workspace(packed.dim()));
  std::vector<index_t> heads(q.heads);
  std::iota(heads.begin(), heads.end(), index_t{0});
  pool.for_each(blocks * key_heads, [&](index_t task, int thread) {  // the last and longest blocks first
    const index_t kv = task % key_heads, block = blocks - 1 - task / key_heads;
    const query_rows<float> here{q, heads.data() + kv * group, group, block * rows,
                                 std::min(rows, total - block * rows)};
    attend_block(unit, here, packed, kv, how, workspaces[thread]);
  });
}

#else
void causal_attention_tiles(tile_unit, thread_pool&, tensor_view<float>, const key_buffer&, const key_buffer&, index_t,
                            const tile_attention&) {
  fail("this build has no tile products");
}
#endif

}  // namespace qkgeom
