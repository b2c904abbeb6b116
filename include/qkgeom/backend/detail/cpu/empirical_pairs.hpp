// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/cpu/pair_math.hpp"
#include "qkgeom/backend/detail/cpu/pair_prepare.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom::cpu {

/// Scores of observed queries over the keys of one group, and how often one key's score exceeds another's. The range of
/// a query's scores is cut into 2^16 equal intervals (AVX-512: 2^15); a score's place is the number of its interval.
/// Scores in different places compare as the places do, since rounding keeps their order, and an instruction compares
/// twice as many places as f32 scores. Scores in the same place are compared directly. With AVX512_VBMI2 the signs of
/// 16 comparisons are shifted into one lane and counted together.
template <class F>
class observed_scores {
 public:
  /// Computes scores of `queries` (d, width), columns from n on being 0, over `keys` (count, d) and block_rows more.
  void set(const F* queries, index_t n, index_t width, const F* keys, index_t count, index_t d) {
    n_ = n;
    count_ = count;
    width_ = width;
    for (int l = 0; l < step; ++l) given_[1][l] = l < n % step ? -1 : 0;
    score_.resize((count + block_rows) * width);
    place_.resize(score_.size());
    least_.assign(width, std::numeric_limits<F>::infinity());
    largest_.assign(width, -std::numeric_limits<F>::infinity());
    // No GEMM: its order of summation depends on the row's place, but equal keys must tie.
    for (index_t i = 0; i < count; i += block_rows) {
      rows_times_lanes(keys + i * d, d, d, queries, width, score_.data() + i * width);
      widen_ranges(i, std::min(count, i + block_rows));
    }
    set_places();
  }

  /// Returns the sum over pairs of keys of w (2 n - w), w being twice the wins of one over the other among n queries.
  double sum() const {
    constexpr index_t near = 8192;  // places of the earlier keys, which stay in the first-level cache
    const index_t tile = std::max<index_t>(1, near / (width_ * earlier_keys)) * earlier_keys;
    double sums[most_pairs] = {};
    for (index_t from = 0; from < count_; from += tile)
      for (index_t j = from; j < count_; j += 2) {
        const index_t end = std::min(j, from + tile);
        if (j + 1 == count_) {
          add_keys_before<1>(j, from, end, sums);
          break;
        }
        add_keys_before<2>(j, from, end, sums);
        if (j < from + tile) add_keys_before<1>(j + 1, j, j + 1, sums);
      }
    return std::accumulate(std::begin(sums), std::end(sums), 0.0);
  }

 private:
  typedef std::int16_t place_lanes __attribute__((vector_size(simd_bytes)));
  typedef std::uint16_t distance_lanes __attribute__((vector_size(simd_bytes)));
  typedef std::int16_t few_places __attribute__((vector_size(2 * lanes<F>)));  // lanes<F> places
  static constexpr int step = simd_bytes / 2;                                  // places of a vector
  // AVX-512 compares into masks, which costs more than differences; 16 bits hold the differences of 2^15 places.
  static constexpr bool by_difference = simd_bytes == 64;
  static constexpr int first_place = by_difference ? 0 : -32768, last_place = 32767;
  typedef std::uint64_t word_lanes __attribute__((vector_size(simd_bytes)));
#if defined(__AVX512VBMI2__) && defined(__AVX512VPOPCNTDQ__)
  static constexpr bool gathers_signs = true;
#else
  static constexpr bool gathers_signs = false;
#endif
  static constexpr int earlier_keys = simd_bytes == 64 ? 8 : 4, most_pairs = 2 * earlier_keys;  // wins in registers
  static constexpr index_t longest = 2032;                      // steps: 16 bits hold the wins of all lanes
  static constexpr index_t run = gathers_signs ? 16 : longest;  // steps per lane: of its signs or of its wins

  /// Returns 0 in lanes where a or b is 0.
  static distance_lanes nearer(const distance_lanes& a, const distance_lanes& b) {
    return by_difference ? a < b ? a : b : a & b;
  }

  /// Returns vectors whose sign says whether x > y; lowers `apart` to 0 where x = y.
  static place_lanes exceeds(const place_lanes& x, const place_lanes& y, distance_lanes& apart) {
    if constexpr (by_difference) {
      const place_lanes difference = y - x;
      apart = (distance_lanes)difference;
      return difference;
    } else {
      apart = ~(distance_lanes)(x == y);
      return x > y;
    }
  }

  /// Adds the negative lanes of x to `wins`, which is 0 where a run of steps begins.
  static void take_signs(place_lanes& wins, const place_lanes& x) {
#if defined(__AVX512VBMI2__)
    if constexpr (gathers_signs) wins = (place_lanes)_mm512_shldi_epi16((__m512i)wins, (__m512i)x, 1);
#endif
    if constexpr (!gathers_signs) wins -= by_difference ? x >> 15 : x;
  }
  /// Returns how many negative lanes `wins` holds, for each word of 64 bits.
  static word_lanes number_of(const place_lanes& wins) {
    auto words = (word_lanes)wins;
#if defined(__AVX512VPOPCNTDQ__)
    if constexpr (gathers_signs) return (word_lanes)_mm512_popcnt_epi64((__m512i)words);
#endif
    words += words >> 32;
    return (words + (words >> 16)) & 0xffff;
  }

  /// Adds the pairs of keys j to j + later - 1 with keys i to end - 1, all of them before j.
  template <int later>
  void add_keys_before(index_t j, index_t i, index_t end, double* sums) const {
    for (; i + earlier_keys <= end; i += earlier_keys) add_block<later, earlier_keys>(j, i, sums);
    for (; i < end; ++i) add_block<later, 1>(j, i, sums);
  }
  template <int later, int earlier>
  void add_block(index_t j, index_t i, double* sums) const {
    std::int32_t doubled[later * earlier];
    count_wins<later, earlier>(j, i, doubled);
    for (int p = 0; p < later * earlier; ++p)
      sums[p] += static_cast<double>(doubled[p]) * static_cast<double>(2 * n_ - doubled[p]);
  }

  /// Counts twice the wins of keys j to j + later - 1 over keys i to i + earlier - 1, ties as 1/2: (later, earlier).
  template <int later, int earlier>
  void count_wins(index_t j, index_t i, std::int32_t* doubled) const {
    constexpr int pairs = later * earlier, vectors = (pairs + 3) / 4;  // a word holds the wins of four pairs
    std::fill(doubled, doubled + pairs, 0);
    for (index_t from = 0; from < n_; from += longest * step) {
      const index_t end = std::min(n_, from + longest * step);
      word_lanes words[vectors] = {};
      for (index_t first = from; first < end; first += run * step) {
        place_lanes wins[pairs] = {};
        for (index_t at = first; at < std::min(end, first + run * step); at += step) {
          place_lanes x[later];
          distance_lanes nearest[later];
#pragma GCC unroll 4
          for (int r = 0; r < later; ++r) x[r] = load_places(j + r, at);
#pragma GCC unroll 8
          for (int c = 0; c < earlier; ++c) {
            const place_lanes y = load_places(i + c, at);
#pragma GCC unroll 4
            for (int r = 0; r < later; ++r) {
              distance_lanes apart;
              take_signs(wins[r * earlier + c], exceeds(x[r], y, apart));
              nearest[r] = c == 0 ? apart : nearer(apart, nearest[r]);
            }
          }
          if (any_zero(nearer(nearest[0], nearest[later - 1]), given_[at + step > n_]))
            add_ties<pairs, earlier>(j, i, at, doubled);
        }
#pragma GCC unroll 16
        for (int p = 0; p < pairs; ++p) words[p / 4] += number_of(wins[p]) << (16 * (p % 4));
      }
      std::uint16_t sums[4 * vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        std::uint64_t word[simd_bytes / 8];
        std::memcpy(word, &words[v], sizeof word);
#pragma GCC unroll 4
        for (int n = simd_bytes / 16; n > 0; n /= 2)
#pragma GCC unroll 4
          for (int w = 0; w < n; ++w) word[w] += word[w + n];
        std::memcpy(sums + 4 * v, word, sizeof *word);
      }
      for (int p = 0; p < pairs; ++p) doubled[p] += 2 * sums[p];
    }
  }

  static bool any_zero(const distance_lanes& x, const place_lanes& given) {
#if defined(__AVX512BW__)
    return _mm512_mask_testn_epi16_mask(_mm512_movepi16_mask((__m512i)given), (__m512i)x, (__m512i)x) != 0;
#else
    return any_bit((x == 0) & given);
#endif
  }

  const F* score(index_t key) const { return score_.data() + key * width_; }
  place_lanes load_places(index_t key, index_t at) const {
    place_lanes x;
    std::memcpy(&x, place_.data() + key * width_ + at, sizeof x);
    return x;
  }

  /// Compares the scores that share a place at one step, where no win was counted. Rare, so not inlined.
  template <int pairs, int earlier>
  [[gnu::noinline]] void add_ties(index_t j, index_t i, index_t at, std::int32_t* doubled) const {
    for (int p = 0; p < pairs; ++p) {
      const index_t later_key = j + p / earlier, earlier_key = i + p % earlier;
      const F *x = score(later_key) + at, *y = score(earlier_key) + at;
      const place_lanes tied = (load_places(later_key, at) == load_places(earlier_key, at)) & given_[at + step > n_];
      if (!any_bit(tied)) continue;
      typename simd<F>::mask wins{};
      for (int l = 0; l < step; l += lanes<F>) {
        few_places some;
        std::memcpy(&some, reinterpret_cast<const char*>(&tied) + l * sizeof(std::int16_t), sizeof some);
        wins += __builtin_convertvector(some, typename simd<F>::mask) &
                ((load(x + l) > load(y + l)) + (load(x + l) >= load(y + l)));
      }
      for (int l = 0; l < lanes<F>; ++l) doubled[p] -= static_cast<std::int32_t>(wins[l]);
    }
  }

  /// Widens the range of each query to the scores of keys i to end - 1.
  void widen_ranges(index_t i, index_t end) {
    for (index_t at = 0; at < width_; at += lanes<F>) {
      vec<F> least = load(least_.data() + at), largest = load(largest_.data() + at);
      for (index_t key = i; key < end; ++key) {
        const vec<F> x = load(score(key) + at);
        least = smaller(least, x);
        largest = larger(largest, x);
      }
      store(least_.data() + at, least);
      store(largest_.data() + at, largest);
    }
  }

  /// Sets the places; a query whose scores have no range that F holds gets one place.
  void set_places() {
    const vec<F> none{};
    places_per_score_.resize(width_);
    for (index_t at = 0; at < width_; at += lanes<F>) {
      const vec<F> per_score = F{last_place - first_place} / (load(largest_.data() + at) - load(least_.data() + at));
      const auto held = (per_score > none) & (per_score < splat(std::numeric_limits<F>::infinity()));
      store(places_per_score_.data() + at, held ? per_score : none);
    }
    for (index_t i = 0; i < count_; ++i)
      for (index_t at = 0; at < width_; at += lanes<F>) {
        const vec<F> per_score = load(places_per_score_.data() + at);
        const vec<F> x = (load(score(i) + at) - load(least_.data() + at)) * per_score + F{first_place};
        // g++ 12 converts to narrower integers lane by lane, so this converts by integers as wide as x.
        const auto whole = __builtin_convertvector(per_score > none ? x : none, typename simd<F>::mask);
        const few_places y = __builtin_convertvector(whole, few_places);
        std::memcpy(place_.data() + i * width_ + at, &y, sizeof y);
      }
  }

  index_t n_ = 0, count_ = 0, width_ = 0;
  place_lanes given_[2] = {~place_lanes{}};  // lanes that hold queries: in a whole step and in the last, partial one
  aligned_vector<F> score_;                  // (keys, width), lanes are queries
  aligned_vector<std::int16_t> place_;       // (keys, width), lanes are queries
  aligned_vector<F> least_, largest_;        // (width) the range of each query's scores
  aligned_vector<F> places_per_score_;       // (width)
};

/// See cpu_context::empirical_pairs: sums 4 p (1 - p), the plug-in form of (4.7, 4.8), (n - 1) / n of the unbiased one.
template <class F>
std::vector<pair_sums> empirical_pairs(thread_pool& pool, const wide_tensor& q, const wide_tensor& k,
                                       const keys_by_document& groups, const std::vector<empirical_problem>& problems) {
  const index_t d = k.first.cols;
  std::vector<pair_sums> results;
  std::vector<std::pair<std::size_t, std::size_t>> tasks;
  std::vector<std::vector<F>> keys(k.heads);  // keys of each head that is read: centred, group after group
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
  std::vector<aligned_vector<F>> columns(pool.size());
  std::vector<observed_scores<F>> scores_of(pool.size());
  pool.for_each(static_cast<index_t>(tasks.size()), [&](index_t task, int thread) {
    const auto [p, b] = tasks[task];
    const auto& problem = problems[p];
    const auto& rows = problem.query_rows[b];
    const auto n = static_cast<index_t>(rows.size());
    if (n < 2) return;
    index_t width = padded<std::int16_t>(n);
    if (width % 128 == 0) width += lanes<std::int16_t>;  // else a column of queries lies in few sets of the cache
    auto& queries = columns[thread];                     // (d, width)
    queries.assign(d * width, F{0});
    std::vector<double> wide(d);
    const wide_rows from = q.head(problem.query_head);
    for (index_t i = 0; i < n; ++i) {
      if (i + 8 < n) from.prefetch(rows[i + 8]);
      from.read(rows[i], wide.data());
      for (index_t c = 0; c < d; ++c) queries[c * width + i] = static_cast<F>(wide[c]);
    }
    auto& scores = scores_of[thread];
    for (index_t g = 0; g < groups.groups(); ++g) {
      const auto range = admissible(groups, g, problem.distributions[b]);
      if (range.size() < 2) continue;
      scores.set(queries.data(), n, width, keys[problem.key_head].data() + (groups.offset[g] + range.begin) * d,
                 range.size(), d);
      const auto at = results[p].at(static_cast<index_t>(b), g);
      results[p].sum[at] = scores.sum() / (static_cast<double>(n) * static_cast<double>(n));
      results[p].pairs[at] = range.pairs();
      results[p].weight[at] = static_cast<double>(range.pairs());
    }
  });
  return results;
}

}  // namespace qkgeom::cpu
