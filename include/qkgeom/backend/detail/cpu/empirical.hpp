// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/cpu/pair_math.hpp"
#include "qkgeom/backend/detail/cpu/pair_prepare.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom::cpu {

/// Number of entries with a > b plus the number with a >= b: twice the wins, where a tie counts 1/2.
template <class F>
inline std::int64_t wins_doubled(const F* a, const F* b, index_t n) {
  using mask = typename simd<F>::mask;
  mask count{};
  index_t i = 0;
  for (; i + lanes<F> <= n; i += lanes<F>) {
    const vec<F> x = load(a + i), y = load(b + i);
    count -= (x > y) + (x >= y);
  }
  std::int64_t total = 0;
  for (int l = 0; l < lanes<F>; ++l) total += count[l];
  for (; i < n; ++i) total += (a[i] > b[i]) + (a[i] >= b[i]);
  return total;
}

/// Scores of observed queries over the keys of one group, and how often one key's score exceeds another's. The range of
/// a query's scores is cut into 2^16 equal intervals (AVX-512: 2^15); the number of a score's interval is its place.
/// Scores in different places compare as the places do, since rounding keeps their order, and an instruction compares
/// twice as many places as f32 scores. Scores in the same place are compared themselves.
template <class F>
class observed_scores {
 public:
  /// Scores of `queries` (d, width), columns from n on being 0, over `keys` (count, d), whose memory reaches block_rows
  /// keys further.
  void set(const F* queries, index_t n, index_t width, const F* keys, index_t count, index_t d) {
    n_ = n;
    count_ = count;
    width_ = width;
    for (int l = 0; l < step; ++l) last_[l] = l < n % step ? -1 : 0;
    score_.resize((count + block_rows) * width);
    place_.resize(score_.size());
    // No GEMM: its order of summation depends on the row's place, and equal keys must tie.
    for (index_t i = 0; i < count; i += block_rows)
      rows_times_lanes(keys + i * d, d, d, queries, width, score_.data() + i * width);
    for (index_t at = 0; at < width; at += lanes<F>) set_places(at, count);
  }

  /// f(i, j, twice the wins of key j over key i, a tie counting 1/2) for every pair of keys i < j.
  template <class Count>
  void for_each_pair(const Count& f) const {
    index_t j = 0;
    for (; j + 2 <= count_; j += 2) {
      for_keys_before<2>(j, 0, j, f);
      for_keys_before<1>(j + 1, j, j + 1, f);
    }
    if (j < count_) for_keys_before<1>(j, 0, j, f);
  }

 private:
  typedef std::int16_t place_lanes __attribute__((vector_size(simd_bytes)));
  typedef std::uint16_t distance_lanes __attribute__((vector_size(simd_bytes)));
  static constexpr int step = simd_bytes / 2;  // places of a vector
  // AVX-512 compares into masks, which costs more than differences; 16 bits hold those of 2^15 places.
  static constexpr bool by_difference = simd_bytes == 64;
  static constexpr int first_place = by_difference ? 0 : -32768, last_place = 32767;
  static constexpr int block = 4;                   // keys: the wins of twice as many pairs stay in registers
  static constexpr index_t longest = 65535 / step;  // steps: 16 bits hold the wins of all lanes

  static std::int64_t sum_of(const place_lanes& wins) {
    std::uint64_t words[simd_bytes / 8], sum = 0;
    std::memcpy(words, &wins, sizeof words);
    for (const auto w : words) sum += w;
    return static_cast<std::int64_t>(sum * 0x0001000100010001 >> 48);
  }

  /// -1 where x > y, else 0; a lane of `apart` becomes 0 where x = y.
  static place_lanes exceeds(const place_lanes& x, const place_lanes& y, distance_lanes& apart) {
    if constexpr (by_difference) {
      const place_lanes difference = y - x;
      const auto distance = (distance_lanes)difference;
      apart = distance < apart ? distance : apart;
      return difference >> 15;
    } else {
      apart &= ~(distance_lanes)(x == y);
      return x > y;
    }
  }

  /// The pairs of keys j to j + later - 1 with keys i to end - 1, all of them before j.
  template <int later, class Count>
  void for_keys_before(index_t j, index_t i, index_t end, const Count& f) const {
    std::int64_t doubled[later * block];
    for (; i + block <= end; i += block) {
      count_wins<later, block>(j, i, doubled);
      for (int p = 0; p < later * block; ++p) f(i + p % block, j + p / block, doubled[p]);
    }
    for (; i < end; ++i) {
      count_wins<later, 1>(j, i, doubled);
      for (int p = 0; p < later; ++p) f(i, j + p, doubled[p]);
    }
  }

  /// Twice the wins of keys j to j + later - 1 over keys i to i + earlier - 1, a tie counting 1/2: (later, earlier).
  template <int later, int earlier>
  void count_wins(index_t j, index_t i, std::int64_t* doubled) const {
    constexpr int pairs = later * earlier;
    std::fill(doubled, doubled + pairs, 0);
    for (index_t from = 0; from < n_; from += longest * step) {
      const index_t end = std::min(n_, from + longest * step), whole = end / step * step;
      place_lanes wins[pairs] = {};
      const auto count = [&](index_t at, const place_lanes& given) {
        place_lanes x[later], won[pairs];
        distance_lanes apart = ~distance_lanes{};
#pragma GCC unroll 4
        for (int r = 0; r < later; ++r) x[r] = load_places(j + r, at);
#pragma GCC unroll 4
        for (int c = 0; c < earlier; ++c) {
          const place_lanes y = load_places(i + c, at);
#pragma GCC unroll 4
          for (int r = 0; r < later; ++r) won[r * earlier + c] = exceeds(x[r], y, apart);
        }
        if (any_bit((apart == 0) & given)) {
          for (int p = 0; p < pairs; ++p) doubled[p] += compared(j + p / earlier, i + p % earlier, at, given);
          return;
        }
#pragma GCC unroll 8
        for (int p = 0; p < pairs; ++p) wins[p] -= won[p];
      };
      for (index_t at = from; at < whole; at += step) count(at, ~place_lanes{});
      if (whole < end) count(whole, last_);
#pragma GCC unroll 8
      for (int p = 0; p < pairs; ++p) doubled[p] += 2 * sum_of(wins[p]);
    }
  }

  const F* score(index_t key) const { return score_.data() + key * width_; }
  place_lanes load_places(index_t key, index_t at) const {
    place_lanes x;
    std::memcpy(&x, place_.data() + key * width_ + at, sizeof x);
    return x;
  }

  /// Twice the wins of key j over key i among the queries of one step. Rare: kept out of the loop that calls it.
  [[gnu::noinline]] std::int64_t compared(index_t j, index_t i, index_t at, const place_lanes& given) const {
    const place_lanes x = load_places(j, at), y = load_places(i, at);
    return any_bit((x == y) & given) ? wins_doubled(score(j) + at, score(i) + at, std::min<index_t>(step, n_ - at))
                                     : 2 * sum_of(-(x > y));
  }

  /// Places of the queries `at` to at + lanes - 1; all one where a query's scores have no range that F holds.
  void set_places(index_t at, index_t count) {
    typedef std::int16_t few_places __attribute__((vector_size(2 * lanes<F>)));
    vec<F> least = load(score(0) + at), largest = least;
    for (index_t i = 1; i < count; ++i) {
      const vec<F> x = load(score(i) + at);
      least = smaller(least, x);
      largest = x > largest ? x : largest;
    }
    const vec<F> per_score = F{last_place - first_place} / (largest - least), none{};
    const auto held = (per_score > none) & (per_score < splat(std::numeric_limits<F>::infinity()));
    for (index_t i = 0; i < count; ++i) {
      const vec<F> x = (load(score(i) + at) - least) * per_score + F{first_place};
      const few_places y = __builtin_convertvector(held ? x : none, few_places);
      std::memcpy(place_.data() + i * width_ + at, &y, sizeof y);
    }
  }

  index_t n_ = 0, count_ = 0, width_ = 0;
  place_lanes last_{};                  // which lanes of the last, partial step hold queries
  aligned_vector<F> score_;             // (keys, width), lanes are queries
  aligned_vector<std::int16_t> place_;  // the same
};

/// See cpu_context::empirical_pairs: sums of 4 p (1 - p), the plug-in form of (4.7, 4.8), (n - 1) / n of the unbiased
/// one.
template <class F>
std::vector<pair_sums> empirical_pairs(thread_pool& pool, const wide_tensor& q, const wide_tensor& k,
                                       const keys_by_document& groups, const std::vector<empirical_problem>& problems) {
  const index_t d = k.first.cols;
  std::vector<pair_sums> results;
  std::vector<std::pair<std::size_t, std::size_t>> tasks;
  std::vector<std::vector<F>> keys(k.heads);  // of each head that is read: centred, group after group
  for (std::size_t p = 0; p < problems.size(); ++p) {
    results.push_back(backend::zero_sums(groups, problems[p].distributions.size()));
    for (std::size_t b = 0; b < problems[p].distributions.size(); ++b) tasks.emplace_back(p, b);
    keys[problems[p].key_head].resize((groups.offset.back() + block_rows) * d);
  }
  pool.for_each(k.heads * groups.groups(), [&](index_t task, int) {
    const index_t head = task / groups.groups(), g = task % groups.groups();
    if (keys[head].empty() || groups.offset[g + 1] - groups.offset[g] < 2) return;
    centred_keys(pool, k.head(head), groups, g, keys[head].data() + groups.offset[g] * d, backend::key_centre::on_grid);
  });
  pool.for_each(static_cast<index_t>(tasks.size()), [&](index_t task, int) {
    const auto [p, b] = tasks[task];
    const auto& problem = problems[p];
    const auto& rows = problem.query_rows[b];
    const auto n = static_cast<index_t>(rows.size());
    if (n < 2) return;
    index_t width = padded<std::int16_t>(n);
    if (width % 128 == 0) width += lanes<std::int16_t>;  // else a column of queries lies in few sets of the cache
    aligned_vector<F> queries(d * width);                // (d, width)
    std::vector<double> wide(d);
    for (index_t i = 0; i < n; ++i) {
      q.head(problem.query_head).read(rows[i], wide.data());
      for (index_t c = 0; c < d; ++c) queries[c * width + i] = static_cast<F>(wide[c]);
    }
    observed_scores<F> scores;
    for (index_t g = 0; g < groups.groups(); ++g) {
      const auto range = admissible(groups, g, problem.distributions[b]);
      if (range.size() < 2) continue;
      scores.set(queries.data(), n, width, keys[problem.key_head].data() + (groups.offset[g] + range.begin) * d,
                 range.size(), d);
      double sum = 0;
      scores.for_each_pair([&](index_t, index_t, std::int64_t doubled) {
        sum += static_cast<double>(doubled) * static_cast<double>(2 * n - doubled);
      });
      const auto at = results[p].at(static_cast<index_t>(b), g);
      results[p].sum[at] = sum / (static_cast<double>(n) * static_cast<double>(n));
      results[p].pairs[at] = range.pairs();
      results[p].weight[at] = static_cast<double>(range.pairs());
    }
  });
  return results;
}

}  // namespace qkgeom::cpu
