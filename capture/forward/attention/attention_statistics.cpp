// SPDX-License-Identifier: MIT
#include "capture/forward/attention/attention_statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "capture/forward/products/blas.hpp"
#include "capture/forward/products/simd.hpp"
#include "qkgeom/sampling/heads.hpp"

namespace qkgeom {
namespace {

using simd::floats;

/// Weights 2^(s - top) of some keys: their sum, and the sum of each times s - top.
struct weight_sums {
  double weight = 0, exponent = 0;
};

weight_sums sum_weights(const float* s, index_t keys, float top) {
  weight_sums sums;
  // Lanes are emptied into f64 every so often, so that no f32 sum grows long.
  constexpr index_t run = 64 * simd::lanes;
  index_t i = 0;
  while (i + simd::lanes <= keys) {
    floats weight{}, exponent{};
    for (const index_t end = std::min(keys - simd::lanes + 1, i + run); i < end; i += simd::lanes) {
      const floats x = simd::load(s + i) - top, w = simd::exp2(x);
      weight += w;
      exponent += w * x;
    }
    sums.weight += static_cast<double>(simd::sum(weight));
    sums.exponent += static_cast<double>(simd::sum(exponent));
  }
  for (; i < keys; ++i) {
    const double x = static_cast<double>(s[i] - top), w = std::exp2(x);
    sums.weight += w;
    sums.exponent += w * x;
  }
  return sums;
}

/// Queries [begin, end) of one head, all of one bucket.
struct tile {
  index_t head, bucket, begin, end;  // head: index into the list of heads
};

/// What one tile adds to the sums: first, entropy and distances in that order.
using tile_sums = std::vector<double>;

/// Adds query t, which sees the keys from `low` on; s holds its scores with the keys from `first` on. `sink`: the score
/// of its head's sink, or none.
void add_row(const float* s, index_t first, index_t low, index_t t, const float* sink, tile_sums& to) {
  const float largest = *std::max_element(s + (low - first), s + (t + 1 - first));
  const float top = sink ? std::max(largest, *sink) : largest;
  // Where bins of distance or the beginnings end.
  std::array<index_t, 72> cuts;
  std::size_t count = 0;
  const auto cut = [&](index_t position) {
    if (position > low && position <= t) cuts[count++] = position;
  };
  for (const index_t f : first_tokens) cut(f);
  for (index_t d = 1; d <= t; d *= 2) cut(t - d + 1);
  cuts[count++] = low;
  cuts[count++] = t + 1;
  std::sort(cuts.begin(), cuts.begin() + static_cast<std::ptrdiff_t>(count));
  weight_sums all;
  if (sink) all = sum_weights(sink, 1, top);
  std::array<weight_sums, 72> part;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    part[i] = sum_weights(s + (cuts[i] - first), cuts[i + 1] - cuts[i], top);
    all.weight += part[i].weight;
    all.exponent += part[i].exponent;
  }
  to[3] += std::log(all.weight) - std::numbers::ln2 * all.exponent / all.weight;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (cuts[i] == cuts[i + 1]) continue;
    const double mass = part[i].weight / all.weight;
    for (std::size_t f = 0; f < first_tokens.size(); ++f)
      if (cuts[i] < first_tokens[f]) to[f] += mass;
    to[4 + static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(t - cuts[i])))] += mass;
  }
}

/// Tiles of the heads that read one key head. The number of rows follows from the document alone.
std::vector<tile> tiles_of(const std::vector<index_t>& members, const bucket_edges& buckets, index_t tokens) {
  const index_t rows = std::clamp<index_t>((index_t{1} << 22) / std::max<index_t>(tokens, 1), 16, 256);
  std::vector<tile> tiles;
  for (const index_t h : members)
    for (index_t b = 0; b < buckets.count(); ++b)
      for (index_t t = buckets.start(b); t < std::min(buckets.end(b), tokens); t += rows)
        tiles.push_back({h, b, t, std::min({t + rows, buckets.end(b), tokens})});
  return tiles;
}

/// One thread's memory: queries (rows, d) times the scale, scores (rows, keys).
struct scratch {
  std::vector<float> q, scores;
};

void run_tile(const tile& queries, const matrix_view<const float>& q, const std::vector<float>& keys,
              const attention_statistics_options& options, index_t window, scratch& s, tile_sums& to) {
  const index_t rows = queries.end - queries.begin, d = q.cols;
  const index_t first = std::max<index_t>(0, queries.begin - window + 1), seen = queries.end - first;
  s.q.resize(rows * d);
  s.scores.resize(rows * seen);
  const auto factor = static_cast<float>(options.scale * std::numbers::log2e);
  for (index_t r = 0; r < rows; ++r)
    for (index_t c = 0; c < d; ++c) s.q[r * d + c] = q(queries.begin + r, c) * factor;
  multiply_transposed(rows, seen, d, s.q.data(), d, keys.data() + first * d, s.scores.data(), seen);
  if (const auto cap = static_cast<float>(options.cap * std::numbers::log2e); cap > 0)
    for (float& x : s.scores) x = cap * std::tanh(x / cap);
  const bool sinks = !options.sinks.empty();
  const float sink = sinks ? static_cast<float>(std::numbers::log2e) * options.sinks[queries.head] : 0;
  for (index_t r = 0; r < rows; ++r) {
    const index_t t = queries.begin + r;
    add_row(s.scores.data() + r * seen, first, std::max<index_t>(0, t - window + 1), t, sinks ? &sink : nullptr, to);
  }
}

}  // namespace

attention_sums measure_attention(thread_pool& pool, tensor_view<const float> q, tensor_view<const float> k,
                                 const measured_heads& what) {
  const auto& heads = what.heads;
  const auto& buckets = what.buckets;
  const auto& options = what.options;
  require(options.bins >= distance_bins(q.rows), "distances of ", q.rows, " tokens need more than ", options.bins,
          " bins");
  const index_t b = buckets.count(), window = std::min(options.window.value_or(q.rows), q.rows);
  attention_sums sums{std::vector<double>(b), {}, {}, {}};
  const std::size_t cells = heads.size() * static_cast<std::size_t>(b);
  sums.first.resize(3 * cells);
  sums.entropy.resize(cells);
  sums.distance.resize(cells * static_cast<std::size_t>(options.bins));
  for (index_t i = 0; i < b; ++i)
    sums.count[i] = static_cast<double>(std::clamp(q.rows, buckets.start(i), buckets.end(i)) - buckets.start(i));

  std::vector<scratch> scratches(pool.size());
  std::vector<float> keys(k.rows * k.dim);
  for (index_t kv = 0; kv < k.heads; ++kv) {
    std::vector<index_t> members;
    for (std::size_t h = 0; h < heads.size(); ++h)
      if (key_head_of(heads[h], q.heads, k.heads) == kv) members.push_back(static_cast<index_t>(h));
    if (members.empty()) continue;
    for (index_t t = 0; t < k.rows; ++t) std::copy_n(k.head(kv).row(t), k.dim, keys.data() + t * k.dim);
    const auto tiles = tiles_of(members, buckets, q.rows);
    std::vector<tile_sums> found(tiles.size(), tile_sums(4 + static_cast<std::size_t>(options.bins)));
    pool.for_each(static_cast<index_t>(tiles.size()), [&](index_t i, int thread) {
      const tile& queries = tiles[i];
      run_tile(queries, q.head(heads[queries.head]), keys, options, window, scratches[thread], found[i]);
    });
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      const std::size_t cell = static_cast<std::size_t>(tiles[i].head * b + tiles[i].bucket);
      for (std::size_t f = 0; f < 3; ++f) sums.first[3 * cell + f] += found[i][f];
      sums.entropy[cell] += found[i][3];
      for (std::size_t x = 0; x < static_cast<std::size_t>(options.bins); ++x)
        sums.distance[cell * static_cast<std::size_t>(options.bins) + x] += found[i][4 + x];
    }
  }
  return sums;
}

}  // namespace qkgeom
