// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <vector>

#include "capture/forward/attention/attention_blocks.hpp"
#include "capture/forward/attention/attention_rows.hpp"
#include "capture/forward/attention/attention_statistics.hpp"
#include "capture/forward/products/simd.hpp"
#include "qkgeom/core/thread_pool.hpp"

/// What is measured of the softmax, block by block of scores. Only files that no unity build joins with others include
/// it.
namespace qkgeom::softmax_blocks {

using attention_blocks::sees;
using simd::floats;
using simd::ints;

/// Number of the bin of a distance, see `distance_edges`.
inline int bin_of(index_t distance) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(distance))); }

/// Sums over some rows by head of the group and bucket, (heads, buckets, 4 + bins): first tokens, entropy, distances.
struct found_sums {
  index_t first_bucket = 0, buckets = 0;
  std::vector<double> sums;
};

/// Adds what was found of some rows to the sums of the document. `members` (group): numbers of the heads among the
/// measured ones, or -1.
inline void collect(const found_sums& found, const std::vector<index_t>& members, const measured_heads& what,
                    attention_sums& to) {
  const index_t bins = what.options.bins, first = static_cast<index_t>(first_tokens.size());
  const double* from = found.sums.data();
  for (const index_t member : members)
    for (index_t i = 0; i < found.buckets; ++i, from += first + 1 + bins) {
      if (member < 0) continue;
      const index_t cell = member * what.buckets.count() + found.first_bucket + i;
      for (index_t f = 0; f < first; ++f) to.first[first * cell + f] += from[f];
      to.entropy[cell] += from[first];
      for (index_t bin = 0; bin < bins; ++bin) to.distance[cell * bins + bin] += from[first + 1 + bin];
    }
}

/// The bins of distance in which keys lie as some rows see them: `far` from `cut` tokens on, else `near`.
struct key_bins {
  int near = 0, far = 0;
  std::int32_t cut = 0;
};

/// Measures the softmax of one block of rows after the other; each thread has one. A block is `Vectors` vectors of
/// queries. Its scores are given transposed, (keys, rows).
template <int Vectors>
class row_measurement {
 public:
  static constexpr index_t rows = Vectors * simd::lanes;

  explicit row_measurement(index_t bins) : bins_(bins), sums_((distance + bins) * rows) {}

  /// Begins rows at `position`, `low` to `high`, that have seen nothing yet but a sink of score `top` and weight
  /// `of_sink`, 1, or 0 where there is none. Each of the three holds `rows` numbers of 32 bits. Scores are to base 2
  /// once they are times `scale`.
  template <class Positions, class Tops, class Weights>
  void begin(index_t low, index_t high, std::int32_t window, float scale, const Positions& position, const Tops& top,
             const Weights& of_sink) {
    low_ = low, high_ = high, window_ = window, scale_ = scale;
    static_assert(sizeof position == sizeof position_ && sizeof top == sizeof top_ && sizeof of_sink == sizeof top_);
    std::memcpy(position_, &position, sizeof position_);
    std::memcpy(top_, &top, sizeof top_);
    for (floats& t : top_) t *= scale;
    std::fill(sums_.begin(), sums_.end(), 0.0);
    float weights_before[rows];
    std::memcpy(weights_before, &of_sink, sizeof weights_before);
    std::copy(weights_before, weights_before + rows, row(weight));
  }

  /// Takes note of `top`, the largest score of each row so far, before keys are added that may have it.
  template <class Tops>
  void raise_tops(const Tops& top) {
    floats tops[Vectors];
    static_assert(sizeof top == sizeof tops);
    std::memcpy(tops, &top, sizeof tops);
    for (int v = 0; v < Vectors; ++v) {
      const floats higher = simd::max(top_[v], tops[v] * scale_);
      if (simd::equal(higher, top_[v])) continue;
      raise(v * simd::lanes, top_[v], higher);
      top_[v] = higher;
    }
  }

  /// The bins of keys [key, stop) if they may be added as sums: all rows see them, at distances of at most two bins,
  /// and none of them is among the first tokens. Else `near` is 0.
  key_bins bins_of(index_t key, index_t stop) const {
    if (stop > low_ || high_ - window_ >= key || key < first_tokens.back()) return {};
    const int near = bin_of(low_ - stop + 1), far = bin_of(high_ - key);
    return far > near + 1 ? key_bins{} : key_bins{near, far, std::int32_t{1} << near};
  }
  /// Adds such keys: `sums` has `rows` numbers of 32 bits each for their weights w = 2^(s - top), for w (s - top), and,
  /// where there are two bins, for the weights of the far one.
  template <class Sums>
  void add_sums(const key_bins& bins, const Sums& sums) {
    static_assert(sizeof sums.weights == Vectors * sizeof(floats));
    floats all[Vectors], exponents[Vectors], beyond[Vectors];
    std::memcpy(all, &sums.weights, sizeof all);
    std::memcpy(exponents, &sums.exponents, sizeof exponents);
    std::memcpy(beyond, &sums.beyond, sizeof beyond);
    add(weight, all);
    add(exponent, exponents);
    add_distances(bins, all, beyond);
  }

  /// Adds the keys [key, stop), none with a score above the tops. What the mask hides is left out, whatever its score.
  void add(const float* scores, index_t key, index_t stop) {
    for (index_t end = key; key < stop; scores += (end - key) * rows, key = end) {
      end = key + 1;
      const int near = bin_of(std::max<index_t>(0, low_ - key)), far = bin_of(high_ - key);
      if (near == 0 || far > near + 1) {
        add_near_key(scores, key);
        continue;
      }
      // The nearest row leaves bin `near` where less than `bottom` tokens are left, the farthest one leaves `far`.
      const index_t bottom = index_t{1} << (near - 1);
      end = std::min(stop, low_ - bottom + 1);
      if (far != near) end = std::min(end, high_ - 2 * bottom + 1);
      for (const index_t f : first_tokens)
        if (key < f) end = std::min(end, f);
      const key_bins bins{near, far, static_cast<std::int32_t>(2 * bottom)};
      if (high_ - window_ >= key)
        add_run<true>(scores, key, end, bins);
      else
        add_run<false>(scores, key, end, bins);
    }
  }

  /// What the keys gave to the queries that lie in a bucket.
  template <class T>
  found_sums found(const query_rows<T>& queries, const std::vector<index_t>& members,
                   const bucket_edges& buckets) const {
    found_sums to;
    for (index_t t = low_; t <= high_; ++t) {
      const index_t bucket = buckets(t);
      if (bucket < 0) continue;
      if (to.buckets == 0) to.first_bucket = bucket;
      to.buckets = bucket - to.first_bucket + 1;
    }
    const index_t width = distance - 1 + bins_;
    to.sums.resize(queries.group * to.buckets * width);
    for (index_t i = 0; i < queries.count; ++i) {
      const index_t bucket = buckets(queries.position(i)), head = (queries.first + i) % queries.group;
      if (bucket >= 0 && members[head] >= 0)
        finish(i, to.sums.data() + (head * to.buckets + bucket - to.first_bucket) * width);
    }
    return to;
  }

 private:
  // Sums in f64 of the weights w = 2^(s - top) that the rows give to keys: w, w (s - top), w of the first tokens, w by
  // distance.
  enum sum_of : index_t { weight, exponent, first, distance = first + first_tokens.size() };

  double* row(index_t value) { return sums_.data() + value * rows; }
  double at(index_t value, index_t row) const { return sums_[value * rows + row]; }
  void add(index_t value, const floats (&x)[Vectors]) {
    for (int v = 0; v < Vectors; ++v)
      for (int l = 0; l < simd::lanes; ++l) row(value)[v * simd::lanes + l] += static_cast<double>(x[v][l]);
  }
  /// Brings the sums of rows [begin, begin + lanes) from the top `from` to `to`, which is at least as high.
  void raise(index_t begin, floats from, floats to) {
    const floats factor = simd::exp2(from - to);
    for (int l = 0; l < simd::lanes; ++l)
      row(exponent)[begin + l] += static_cast<double>(from[l] - to[l]) * row(weight)[begin + l];
    for (index_t value = 0; value < distance + bins_; ++value)
      for (int l = 0; l < simd::lanes; ++l) row(value)[begin + l] *= static_cast<double>(factor[l]);
  }

  /// Weights of a key in vector v, and x = s - top.
  floats weights(const float* scores, int v, floats& x) const {
    x = simd::load(scores + v * simd::lanes) * scale_ - top_[v];
    return simd::exp2(x);
  }
  /// Adds what does not depend on distance: sums over keys from `key` on, which lie beyond the same of the first
  /// tokens.
  void add_anywhere(index_t key, const floats (&of_weights)[Vectors], const floats (&of_exponents)[Vectors]) {
    add(weight, of_weights);
    add(exponent, of_exponents);
    for (std::size_t f = 0; f < first_tokens.size(); ++f)
      if (key < first_tokens[f]) add(first + static_cast<index_t>(f), of_weights);
  }
  /// Adds the sums of weights of keys in `bins`, `beyond` being those of the far one, to the sums by distance.
  void add_distances(const key_bins& bins, floats (&all)[Vectors], const floats (&beyond)[Vectors]) {
    if (bins.near != bins.far) {
      add(distance + bins.far, beyond);
      simd::unrolled<Vectors>([&](auto v) { all[v] -= beyond[v]; });
    }
    add(distance + bins.near, all);
  }
  /// Adds keys [key, stop), which lie beyond the same of the first tokens and in two bins at most. All stand before the
  /// rows; with `Hides` the window hides some.
  template <bool Hides>
  void add_run(const float* scores, index_t key, index_t stop, const key_bins& bins) {
    floats all[Vectors] = {}, exponents[Vectors] = {}, beyond[Vectors] = {};
    for (index_t j = key; j < stop; ++j, scores += rows)
      simd::unrolled<Vectors>([&](auto v) {
        floats x;
        const auto number = static_cast<std::int32_t>(j);
        floats w = weights(scores, v, x);
        if constexpr (Hides) w = sees(position_[v], number, window_) ? w : floats{};
        all[v] += w;
        exponents[v] += w * x;
        if (bins.near != bins.far) beyond[v] += position_[v] - number >= bins.cut ? w : floats{};
      });
    add_anywhere(key, all, exponents);
    add_distances(bins, all, beyond);
  }
  /// Adds a key whose distances from the rows lie in several bins.
  void add_near_key(const float* scores, index_t key) {
    floats all[Vectors], exponents[Vectors];
    for (int v = 0; v < Vectors; ++v) {
      floats x;
      const auto number = static_cast<std::int32_t>(key);
      const floats w = weights(scores, v, x);
      all[v] = sees(position_[v], number, window_) ? w : floats{};
      exponents[v] = all[v] * x;
      for (int l = 0; l < simd::lanes; ++l)
        if (position_[v][l] >= number)
          row(distance + bin_of(position_[v][l] - number))[v * simd::lanes + l] += static_cast<double>(all[v][l]);
    }
    add_anywhere(key, all, exponents);
  }

  void finish(index_t row, double* to) const {
    const double all = at(weight, row);
    for (index_t f = first; f < distance; ++f) *to++ += at(f, row) / all;
    *to++ += std::log(all) - std::numbers::ln2 * at(exponent, row) / all;
    for (index_t bin = 0; bin < bins_; ++bin) *to++ += at(distance + bin, row) / all;
  }

  index_t bins_, low_ = 0, high_ = 0;
  std::int32_t window_ = 0;
  float scale_ = 1;
  std::vector<double> sums_;  ///< (values, rows)
  ints position_[Vectors]{};
  floats top_[Vectors]{};
};

/// For each key head the places of its group's query heads among the measured ones, or -1.
inline std::vector<std::vector<index_t>> members_of(index_t query_heads, index_t key_heads,
                                                    const measured_softmax* softmax) {
  std::vector<std::vector<index_t>> members(key_heads);
  for (index_t h = 0; softmax && h < query_heads; ++h) {
    const auto& heads = softmax->what.heads;
    const auto at = std::find(heads.begin(), heads.end(), h);
    members[h / (query_heads / key_heads)].push_back(at == heads.end() ? -1 : at - heads.begin());
  }
  return members;
}

/// Runs work(kv, block, thread, to) for `blocks` blocks of rows of each key head kv, the last and longest first, and
/// adds their sums in that order. `to` is where the sums of a block go; null where no head of kv is measured.
template <class Work>
void over_blocks(thread_pool& pool, index_t blocks, const std::vector<std::vector<index_t>>& members,
                 const measured_softmax* softmax, const Work& work) {
  const auto key_heads = static_cast<index_t>(members.size()), tasks = blocks * key_heads;
  const index_t together = softmax ? 4096 : tasks;  // the sums of so many blocks are held
  for (index_t first = 0; first < tasks; first += together) {
    std::vector<found_sums> found(softmax ? std::min(together, tasks - first) : 0);
    pool.for_each(std::min(together, tasks - first), [&](index_t i, int thread) {
      const index_t task = first + i, kv = task % key_heads, block = blocks - 1 - task / key_heads;
      const bool any = std::any_of(members[kv].begin(), members[kv].end(), [](index_t m) { return m >= 0; });
      work(kv, block, thread, any ? &found[i] : nullptr);
    });
    for (std::size_t i = 0; i < found.size(); ++i)
      if (found[i].buckets > 0)
        collect(found[i], members[(first + static_cast<index_t>(i)) % key_heads], softmax->what, softmax->sums);
  }
}

}  // namespace qkgeom::softmax_blocks
