// SPDX-License-Identifier: MIT
#include "capture/forward/attention/attention_statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "capture/forward/attention/attention.hpp"
#include "capture/forward/attention/attention_blocks.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/sampling/heads.hpp"

namespace qkgeom {
namespace {

using namespace attention_blocks;
using simd::floats;
using simd::ints;

/// Keys of a block: what lies in the first-level cache.
constexpr index_t block_keys = key_tile;

/// Number of the bin of a distance, see `distance_edges`.
int bin_of(index_t distance) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(distance))); }

/// Sums in f64 of the weights w = 2^(s - top) that a block's rows give to their keys, (values, rows): w, w (s - top), w
/// of the first tokens, w by distance.
class row_sums {
 public:
  enum : index_t { weight, exponent, first, distance = first + first_tokens.size() };

  explicit row_sums(index_t bins) : values_((distance + bins) * rows) {}
  double* row(index_t value) { return values_.data() + value * rows; }
  double at(index_t value, index_t row) const { return values_[value * rows + row]; }
  index_t bins() const { return static_cast<index_t>(values_.size()) / rows - distance; }

  void clear() { std::fill(values_.begin(), values_.end(), 0.0); }
  void add(index_t value, const floats (&x)[vectors]) {
    for (int v = 0; v < vectors; ++v)
      for (int l = 0; l < simd::lanes; ++l) row(value)[v * simd::lanes + l] += static_cast<double>(x[v][l]);
  }
  /// Brings the sums of rows [begin, begin + lanes) from the top `from` to `to`, which is at least as high.
  void raise(index_t begin, floats from, floats to) {
    const floats factor = simd::exp2(from - to);
    for (int l = 0; l < simd::lanes; ++l)
      row(exponent)[begin + l] += static_cast<double>(from[l] - to[l]) * row(weight)[begin + l];
    for (index_t value = 0; value < distance + bins(); ++value)
      for (int l = 0; l < simd::lanes; ++l) row(value)[begin + l] *= static_cast<double>(factor[l]);
  }

 private:
  std::vector<double> values_;
};

/// One thread's memory, and the rows that it measures.
struct scratch {
  std::vector<float> q, scores;  // (d, rows), (block_keys, rows)
  row_sums sums;
  ints position[vectors]{};
  floats top[vectors]{};

  scratch(index_t dim, index_t bins)
      : q(static_cast<std::size_t>(dim * rows)), scores(static_cast<std::size_t>(block_keys * rows)), sums(bins) {}
};

/// Weights of key `key`, whose scores are given.
floats weights(const floats& score, const floats& top, ints position, std::int32_t key, std::int32_t window,
               floats& x) {
  x = score - top;
  return sees(position, key, window) ? simd::exp2(x) : floats{};
}

/// Adds what does not depend on distance: sums over keys from `key` on, which lie beyond the same of the first tokens.
void add_anywhere(row_sums& sums, index_t key, const floats (&weight)[vectors], const floats (&exponent)[vectors]) {
  sums.add(row_sums::weight, weight);
  sums.add(row_sums::exponent, exponent);
  for (std::size_t f = 0; f < first_tokens.size(); ++f)
    if (key < first_tokens[f]) sums.add(row_sums::first + static_cast<index_t>(f), weight);
}

/// Adds keys [key, stop), which lie beyond the same of the first tokens, and whose distances from the rows belong to
/// bin `far` from `cut` tokens on, else to bin `near`.
void add_run(scratch& s, const float* scores, index_t key, index_t stop, std::int32_t window, int near, int far,
             std::int32_t cut) {
  floats all[vectors] = {}, exponent[vectors] = {}, beyond[vectors] = {};
  for (index_t j = key; j < stop; ++j, scores += rows)
    simd::unrolled<vectors>([&](auto v) {
      floats x;
      const auto number = static_cast<std::int32_t>(j);
      const floats w = weights(simd::load(scores + v * simd::lanes), s.top[v], s.position[v], number, window, x);
      all[v] += w;
      exponent[v] += w * x;
      if (near != far) beyond[v] += s.position[v] - number >= cut ? w : floats{};
    });
  add_anywhere(s.sums, key, all, exponent);
  if (near != far) {
    s.sums.add(row_sums::distance + far, beyond);
    simd::unrolled<vectors>([&](auto v) { all[v] -= beyond[v]; });
  }
  s.sums.add(row_sums::distance + near, all);
}

/// Adds a key whose distances from the rows lie in several bins.
void add_near_key(scratch& s, const float* scores, index_t key, std::int32_t window) {
  floats all[vectors], exponent[vectors];
  for (int v = 0; v < vectors; ++v) {
    floats x;
    const auto number = static_cast<std::int32_t>(key);
    all[v] = weights(simd::load(scores + v * simd::lanes), s.top[v], s.position[v], number, window, x);
    exponent[v] = all[v] * x;
    for (int l = 0; l < simd::lanes; ++l)
      if (s.position[v][l] >= number)
        s.sums.row(row_sums::distance + bin_of(s.position[v][l] - number))[v * simd::lanes + l] +=
            static_cast<double>(all[v][l]);
  }
  add_anywhere(s.sums, key, all, exponent);
}

/// Adds keys [key, stop) of a block; the rows stand at positions `low` to `high`.
void add_block(scratch& s, index_t key, index_t stop, index_t low, index_t high, std::int32_t window) {
  const float* scores = s.scores.data();
  for (index_t end = key; key < stop; scores += (end - key) * rows, key = end) {
    end = key + 1;
    const int near = bin_of(std::max<index_t>(0, low - key)), far = bin_of(high - key);
    if (near == 0 || far > near + 1) {
      add_near_key(s, scores, key, window);
      continue;
    }
    // The nearest row leaves bin `near` where less than `bottom` tokens are left, the farthest one leaves `far`.
    const index_t bottom = index_t{1} << (near - 1);
    end = std::min(stop, low - bottom + 1);
    if (far != near) end = std::min(end, high - 2 * bottom + 1);
    for (const index_t f : first_tokens)
      if (key < f) end = std::min(end, f);
    add_run(s, scores, key, end, window, near, far, static_cast<std::int32_t>(2 * bottom));
  }
}

/// Sums of some rows by head of the group and bucket, (heads, buckets, 4 + bins): first tokens, entropy, distances.
struct found_sums {
  index_t first_bucket = 0, buckets = 0;
  std::vector<double> sums;
};

class measurement {
 public:
  measurement(const measured_heads& what, index_t tokens)
      : what_(what),
        window_(static_cast<std::int32_t>(std::min(what.options.window.value_or(tokens), tokens))),
        scale_(static_cast<float>(what.options.scale * std::numbers::log2e)),
        cap_(static_cast<float>(what.options.cap * std::numbers::log2e)) {}

  /// `members` (group): numbers of the rows' heads among the measured ones.
  found_sums operator()(const query_rows<const float>& queries, const index_t* members, const key_buffer& keys,
                        scratch& s) const {
    const index_t low = queries.position(0), high = queries.position(queries.count - 1);
    found_sums found;
    for (index_t t = low; t <= high; ++t) {
      const index_t bucket = what_.buckets(t);
      if (bucket < 0) continue;
      if (found.buckets == 0) found.first_bucket = bucket;
      found.buckets = bucket - found.first_bucket + 1;
    }
    if (found.buckets == 0) return found;
    begin(queries, members, s);
    for (index_t j = std::max<index_t>(0, low - window_ + 1) / block_keys * block_keys; j <= high; j += block_keys)
      add(keys, j, low, high, s);
    found.sums.resize(queries.group * found.buckets * width());
    for (index_t i = 0; i < queries.count; ++i)
      if (const index_t bucket = what_.buckets(queries.position(i)); bucket >= 0)
        finish(s.sums, i,
               found.sums.data() +
                   ((queries.first + i) % queries.group * found.buckets + bucket - found.first_bucket) * width());
    return found;
  }

  /// Adds what was found of some rows to the sums of the document.
  void collect(const found_sums& found, const std::vector<index_t>& members, attention_sums& to) const {
    const double* from = found.sums.data();
    for (const index_t member : members)
      for (index_t i = 0; i < found.buckets; ++i, from += width()) {
        const index_t cell = member * what_.buckets.count() + found.first_bucket + i;
        for (std::size_t f = 0; f < first_tokens.size(); ++f) to.first[first_tokens.size() * cell + f] += from[f];
        to.entropy[cell] += from[first_tokens.size()];
        for (index_t bin = 0; bin < what_.options.bins; ++bin)
          to.distance[cell * what_.options.bins + bin] += from[first_tokens.size() + 1 + bin];
      }
  }

 private:
  index_t width() const { return static_cast<index_t>(first_tokens.size()) + 1 + what_.options.bins; }

  /// A row begins with its head's sink as the only weight, 1.
  void begin(const query_rows<const float>& queries, const index_t* members, scratch& s) const {
    load_queries(queries, scale_, s.q, s.position);
    s.sums.clear();
    const auto& sinks = what_.options.sinks;
    for (index_t i = 0; i < rows; ++i) {
      const index_t row = std::min(i, queries.count - 1);
      s.top[i / simd::lanes][i % simd::lanes] =
          sinks.empty()
              ? masked
              : static_cast<float>(std::numbers::log2e) * sinks[members[(queries.first + row) % queries.group]];
      s.sums.row(row_sums::weight)[i] = sinks.empty() ? 0 : 1;
    }
  }

  void add(const key_buffer& keys, index_t j, index_t low, index_t high, scratch& s) const {
    floats top[vectors];
    simd::unrolled<vectors>([&](auto v) { top[v] = simd::all(masked); });
    score_block(s.q.data(), keys.head(0) + j * keys.padded_dim(), block_keys, keys.padded_dim(), s.scores.data(), top);
    if (cap_ > 0) cap_block(block_keys, cap_, s.scores.data(), top);
    if (j + block_keys - 1 > low || high - window_ >= j)
      mask_block(s.position, static_cast<std::int32_t>(j), block_keys, window_, s.scores.data(), top);
    for (int v = 0; v < vectors; ++v) {
      const floats higher = simd::max(s.top[v], top[v]);
      if (simd::equal(higher, s.top[v])) continue;
      s.sums.raise(v * simd::lanes, s.top[v], higher);
      s.top[v] = higher;
    }
    add_block(s, j, std::min(j + block_keys, high + 1), low, high, window_);
  }

  /// What a row's keys give, from its sums.
  void finish(const row_sums& sums, index_t row, double* to) const {
    const double weight = sums.at(row_sums::weight, row);
    for (std::size_t f = 0; f < first_tokens.size(); ++f)
      *to++ += sums.at(row_sums::first + static_cast<index_t>(f), row) / weight;
    *to++ += std::log(weight) - std::numbers::ln2 * sums.at(row_sums::exponent, row) / weight;
    for (index_t bin = 0; bin < what_.options.bins; ++bin) *to++ += sums.at(row_sums::distance + bin, row) / weight;
  }

  const measured_heads& what_;
  std::int32_t window_;
  float scale_, cap_;
};

}  // namespace

attention_sums measure_attention(thread_pool& pool, tensor_view<const float> q, tensor_view<const float> k,
                                 const measured_heads& what) {
  const auto& heads = what.heads;
  const auto& buckets = what.buckets;
  const index_t bins = what.options.bins, b = buckets.count();
  require(bins >= distance_bins(q.rows), "distances of ", q.rows, " tokens need more than ", bins, " bins");
  attention_sums sums{std::vector<double>(b), {}, {}, {}};
  const std::size_t cells = heads.size() * static_cast<std::size_t>(b);
  sums.first.resize(first_tokens.size() * cells);
  sums.entropy.resize(cells);
  sums.distance.resize(cells * static_cast<std::size_t>(bins));
  for (index_t i = 0; i < b; ++i)
    sums.count[i] = static_cast<double>(std::clamp(q.rows, buckets.start(i), buckets.end(i)) - buckets.start(i));

  const measurement measure(what, q.rows);
  key_buffer keys;
  keys.reshape(k.rows, 1, k.dim);
  std::vector<scratch> scratches(pool.size(), scratch(keys.padded_dim(), bins));
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
    constexpr index_t together = 4096;
    for (index_t first = 0; first < blocks; first += together) {
      std::vector<found_sums> found(std::min(together, blocks - first));
      pool.for_each(static_cast<index_t>(found.size()), [&](index_t i, int thread) {
        const index_t task = static_cast<index_t>(found.size()) - 1 - i, row = (first + task) * rows;  // longest first
        found[task] =
            measure({q, group.data(), size, row, std::min(rows, total - row)}, members.data(), keys, scratches[thread]);
      });
      for (const auto& f : found) measure.collect(f, members, sums);
    }
  }
  return sums;
}

}  // namespace qkgeom
