// SPDX-License-Identifier: MIT
#include "capture/forward/attention/attention_statistics.hpp"

#include <algorithm>
#include <numbers>

#include "capture/forward/attention/attention.hpp"
#include "capture/forward/attention/attention_blocks.hpp"
#include "capture/forward/attention/softmax_blocks.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/sampling/head_draw.hpp"

namespace qkgeom {
namespace {

using namespace attention_blocks;
using simd::floats;
using simd::ints;

/// Keys of a block: what lies in the first-level cache.
constexpr index_t block_keys = key_tile;

/// A thread's memory.
struct scratch {
  std::vector<float> q, scores;  // (d, rows), (block_keys, rows)
  softmax_blocks::row_measurement<vectors> measurement;

  scratch(index_t dim, index_t bins)
      : q(static_cast<std::size_t>(dim * rows)),
        scores(static_cast<std::size_t>(block_keys * rows)),
        measurement(bins) {}
};

/// The scores of rows with all keys that they see, measured. `members` (group): numbers of the rows' heads among the
/// measured ones.
void measure(const query_rows<const float>& queries, const std::vector<index_t>& members, const key_buffer& keys,
             const measured_heads& what, scratch& s) {
  const auto& o = what.options;
  const index_t low = queries.position(0), high = queries.position(queries.count - 1);
  const auto window = static_cast<std::int32_t>(std::min(o.window.value_or(queries.q.rows), queries.q.rows));
  const auto cap = static_cast<float>(o.cap * std::numbers::log2e);
  ints position[vectors];
  floats top[vectors], sum[vectors] = {};
  load_queries(queries, static_cast<float>(o.scale * std::numbers::log2e), s.q, position);
  simd::unrolled<vectors>([&](auto v) { top[v] = simd::all(masked); });
  for (index_t i = 0; !o.sinks.empty() && i < rows; ++i) {
    const index_t member = members[(queries.first + std::min(i, queries.count - 1)) % queries.group];
    top[i / simd::lanes][i % simd::lanes] = static_cast<float>(std::numbers::log2e) * o.sinks[member];
    sum[i / simd::lanes][i % simd::lanes] = 1;
  }
  s.measurement.begin(low, high, window, 1, position, top, sum);
  for (index_t j = std::max<index_t>(0, low - window + 1) / block_keys * block_keys; j <= high; j += block_keys) {
    simd::unrolled<vectors>([&](auto v) { top[v] = simd::all(masked); });
    score_block(s.q.data(), keys.head(0) + j * keys.padded_dim(), block_keys, keys.padded_dim(), s.scores.data(), top);
    if (cap > 0) cap_block(block_keys, cap, s.scores.data(), top);
    if (j + block_keys - 1 > low || high - window >= j)
      mask_block(position, static_cast<std::int32_t>(j), block_keys, window, s.scores.data(), top);
    s.measurement.raise_tops(top);
    s.measurement.add(s.scores.data(), j, std::min(j + block_keys, high + 1));
  }
}

}  // namespace

attention_sums no_attention_sums(index_t tokens, const measured_heads& what) {
  const auto& buckets = what.buckets;
  const index_t bins = what.options.bins, b = buckets.count();
  require(bins >= distance_bins(tokens), "distances of ", tokens, " tokens need more than ", bins, " bins");
  attention_sums sums{std::vector<double>(b), {}, {}, {}};
  const std::size_t cells = what.heads.size() * static_cast<std::size_t>(b);
  sums.first.resize(first_tokens.size() * cells);
  sums.entropy.resize(cells);
  sums.distance.resize(cells * static_cast<std::size_t>(bins));
  for (index_t i = 0; i < b; ++i)
    sums.count[i] = static_cast<double>(std::clamp(tokens, buckets.start(i), buckets.end(i)) - buckets.start(i));
  return sums;
}

attention_sums measure_attention(thread_pool& pool, tensor_view<const float> q, tensor_view<const float> k,
                                 const measured_heads& what) {
  const auto& heads = what.heads;
  auto sums = no_attention_sums(q.rows, what);
  key_buffer keys;
  keys.reshape(k.rows, 1, k.dim);
  std::vector<scratch> scratches(pool.size(), scratch(keys.padded_dim(), what.options.bins));
  for (index_t kv = 0; kv < k.heads; ++kv) {
    std::vector<index_t> members, group;  // numbers among the measured heads; heads
    for (std::size_t h = 0; h < heads.size(); ++h)
      if (key_head_of(heads[h], q.heads, k.heads) == kv) {
        members.push_back(static_cast<index_t>(h));
        group.push_back(heads[h]);
      }
    if (members.empty()) continue;
    for (index_t t = 0; t < k.rows; ++t) std::copy_n(k.head(kv).row(t), k.dim, keys.view().head(0).row(t));
    const auto size = static_cast<index_t>(group.size());
    const index_t total = q.rows * size, blocks = (total + rows - 1) / rows;
    const measured_softmax softmax{what, sums};
    softmax_blocks::over_blocks(pool, blocks, {members}, &softmax, [&](index_t, index_t block, int thread, auto* to) {
      const query_rows<const float> here{q, group.data(), size, block * rows, std::min(rows, total - block * rows)};
      measure(here, members, keys, what, scratches[thread]);
      *to = scratches[thread].measurement.found(here, members, what.buckets);
    });
  }
  return sums;
}

}  // namespace qkgeom
