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
/// a query's scores is cut into 2^16 equal intervals; the number of a score's interval is its place. Scores in
/// different places compare as the places do, since rounding keeps their order, and an instruction compares twice as
/// many places as f32 scores. Scores in the same place are compared themselves.
template <class F>
class observed_scores {
 public:
  /// Scores of `queries` (d, width), columns from n on being 0, over `keys` (count, d), whose memory reaches block_rows
  /// keys further.
  void set(const F* queries, index_t n, index_t width, const F* keys, index_t count, index_t d) {
    n_ = n;
    width_ = width;
    for (int l = 0; l < step; ++l) last_[l] = l < n % step ? -1 : 0;
    score_.resize((count + block_rows) * width);
    place_.resize(score_.size());
    // No GEMM: its order of summation depends on the row's place, and equal keys must tie.
    for (index_t i = 0; i < count; i += block_rows)
      rows_times_lanes(keys + i * d, d, d, queries, width, score_.data() + i * width);
    for (index_t at = 0; at < width; at += lanes<F>) set_places(at, count);
  }

  /// Twice the wins of key j over keys i to i + pairs - 1, a tie counting 1/2.
  template <int pairs>
  void count_wins(index_t j, index_t i, std::int64_t* doubled) const {
    std::fill(doubled, doubled + pairs, 0);
    for (index_t from = 0; from < n_; from += longest * step) {
      const index_t end = std::min(n_, from + longest * step), whole = end / step * step;
      const std::int16_t* const later = place_.data() + j * width_;
      const std::int16_t* const earlier = place_.data() + i * width_;
      place_lanes wins[pairs] = {};
      const auto count = [&](index_t at, const place_lanes& given) {
        const place_lanes x = load_places(later + at);
        place_lanes won[pairs], same{};
#pragma GCC unroll 4
        for (int p = 0; p < pairs; ++p) {
          const place_lanes y = load_places(earlier + p * width_ + at);
          won[p] = x > y;
          same |= x == y;
        }
        if (any_bit(same & given)) {
          compare_scores(j, i, pairs, at, doubled);
          return;
        }
#pragma GCC unroll 4
        for (int p = 0; p < pairs; ++p) wins[p] -= won[p];
      };
      for (index_t at = from; at < whole; at += step) count(at, ~place_lanes{});
      if (whole < end) count(whole, last_);
#pragma GCC unroll 4
      for (int p = 0; p < pairs; ++p) doubled[p] += 2 * sum_of(wins[p]);
    }
  }

 private:
  typedef std::int16_t place_lanes __attribute__((vector_size(simd_bytes)));
  static constexpr int step = simd_bytes / 2;  // places of a vector
  static constexpr index_t longest = 4096;     // steps: no sum of a lane's wins over 8 words reaches 2^16

  static std::int64_t sum_of(const place_lanes& wins) {
    std::uint64_t words[simd_bytes / 8], sum = 0;
    std::memcpy(words, &wins, sizeof words);
    for (const auto w : words) sum += w;
    constexpr std::uint64_t low = 0x0000ffff0000ffff;
    sum = (sum & low) + (sum >> 16 & low);
    return static_cast<std::int64_t>((sum & 0xffffffff) + (sum >> 32));
  }

  const F* score(index_t key) const { return score_.data() + key * width_; }
  static place_lanes load_places(const std::int16_t* p) {
    place_lanes x;
    std::memcpy(&x, p, sizeof x);
    return x;
  }

  /// The same for the queries of one step, by their scores. Rare: kept out of the loop that calls it.
  [[gnu::noinline]] void compare_scores(index_t j, index_t i, int pairs, index_t at, std::int64_t* doubled) const {
    for (int p = 0; p < pairs; ++p)
      doubled[p] += wins_doubled(score(j) + at, score(i + p) + at, std::min<index_t>(step, n_ - at));
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
    const vec<F> per_score = F{65535} / (largest - least), none{};
    const auto held = (per_score > none) & (per_score < splat(std::numeric_limits<F>::infinity()));
    for (index_t i = 0; i < count; ++i) {
      const vec<F> x = (load(score(i) + at) - least) * per_score - F{32768};
      const few_places y = __builtin_convertvector(held ? x : none, few_places);
      std::memcpy(place_.data() + i * width_ + at, &y, sizeof y);
    }
  }

  index_t n_ = 0, width_ = 0;
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
      const auto add = [&](std::int64_t doubled) {
        const double share = static_cast<double>(doubled) / (2.0 * static_cast<double>(n));
        sum += 4.0 * share * (1.0 - share);
      };
      for (index_t j = 1; j < range.size(); ++j) {
        std::int64_t doubled[4];
        index_t i = 0;
        for (; i + 4 <= j; i += 4) {
          scores.template count_wins<4>(j, i, doubled);
          for (const auto x : doubled) add(x);
        }
        for (; i < j; ++i) {
          scores.template count_wins<1>(j, i, doubled);
          add(doubled[0]);
        }
      }
      const auto at = results[p].at(static_cast<index_t>(b), g);
      results[p].sum[at] = sum;
      results[p].pairs[at] = range.pairs();
      results[p].weight[at] = static_cast<double>(range.pairs());
    }
  });
  return results;
}

}  // namespace qkgeom::cpu
