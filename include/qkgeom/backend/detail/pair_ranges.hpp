// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/random.hpp"

/// Pair sums of all backends: drawn pairs, checks of keys and weights, empty results.
namespace qkgeom::backend {

/// Returns a power of two near 1 / sqrt(mean_square), which brings values to order 1 without rounding them.
QKGEOM_HD inline double unit_scale(double mean_square) {
  if (!(mean_square > 0) || !std::isfinite(mean_square)) return 1.0;
  return std::ldexp(1.0, -std::ilogb(mean_square) / 2);
}

/// Returns whether products of four values of this size (two of keys, two of queries) fit f32; else f64 is used.
inline bool f32_holds(double largest) {
  constexpr int range = 20;
  return !(largest > 0) || std::abs(std::ilogb(largest)) <= range;
}

/// Returns the largest size of values; NaNs do not count. Eight maxima run side by side, since each waits for its last.
inline double largest_size(const std::vector<double>& values) {
  std::array<double, 8> most{};
  std::size_t i = 0;
  for (; i + most.size() <= values.size(); i += most.size())
    for (std::size_t l = 0; l < most.size(); ++l) most[l] = std::max(most[l], std::abs(values[i + l]));
  for (; i < values.size(); ++i) most[0] = std::max(most[0], std::abs(values[i]));
  return *std::max_element(most.begin(), most.end());
}

/// Returns the largest size of a mean, a standard deviation or an entry of a factor.
inline double largest_of(const std::vector<pair_problem>& problems) {
  double largest = 0;
  for (const auto& p : problems)
    for (const auto& scores : p.distributions) {
      for (const double v : scores.variance) largest = std::max(largest, std::sqrt(v));
      largest = std::max({largest, largest_size(scores.mean), largest_size(scores.factor)});
    }
  return largest;
}

/// The most keys of a group, evenly spaced, from which the rounding grid is estimated.
inline constexpr index_t most_grid_keys = 256;
QKGEOM_HD inline index_t grid_keys(index_t n) { return n < most_grid_keys ? n : most_grid_keys; }
QKGEOM_HD inline index_t grid_key(index_t j, index_t n) { return j * n / grid_keys(n); }

/// The centre that is subtracted from each key: its group's mean, or the `grid_centre` near it.
enum class key_centre { mean, on_grid };

/// Rounds the mean of one coordinate of keys in [low, high] to a grid between a 512th and a 256th of their range. A key
/// minus its mean has more digits than the key, so equal scores would round differently; this leaves hardly more.
QKGEOM_HD inline double grid_centre(double mean, double low, double high) {
  if (!(high > low)) return low;
  if (!std::isfinite(high - low)) return mean;
  const double grid = std::ldexp(1.0, std::ilogb(high - low) - 8);
  return grid > 0 ? grid * std::rint(mean / grid) : mean;
}

/// A weight of 1 for every pair.
struct no_weight {
  static constexpr bool given = false, of_later_key = false;
  QKGEOM_HD double operator()(const key_pair&) const { return 1.0; }
};

/// A weight of the caller's type F that runs where the pairs do. If F reads only j and keys of a pair, its member
/// `F::of_later_key` says so, and the weight is evaluated once per key.
template <class F>
struct given_weight {
  static constexpr bool given = true, of_later_key = requires { F::of_later_key; };
  F weight;
  QKGEOM_HD double operator()(const key_pair& p) const { return static_cast<double>(weight(p)); }
};

QKGEOM_HD inline bool is_weight(double w) { return w >= 0 && w - w == 0; }

/// Throws unless `w`, the weight of a pair of keys at t_i and t_j (tokens), is finite and at least 0.
inline void check_weight(double w, std::int32_t t_i, std::int32_t t_j) {
  require(is_weight(w), "the weight of a pair of keys must be a finite number of at least 0, not ", w, " (positions ",
          t_i, " and ", t_j, ")");
}

[[noreturn]] inline void refuse_key(const keys_by_document& groups, index_t group) {
  const std::int32_t document = groups.document[group];
  fail("plasticity: a key of ", document < 0 ? "one of the examples" : "example " + std::to_string(document),
       " is not finite");
}
/// Throws unless the keys of a group are finite. Checks their mean (d), which one non-finite key makes non-finite.
inline void check_finite_keys(const keys_by_document& groups, index_t group, const double* mean, index_t d) {
  if (!std::all_of(mean, mean + d, [](double x) { return std::isfinite(x); })) refuse_key(groups, group);
}

/// Returns sums of 0 for each query bucket and group.
inline pair_sums zero_sums(const keys_by_document& groups, std::size_t buckets) {
  pair_sums s{static_cast<index_t>(buckets), groups.groups(), {}, {}, {}, 0, {}, {}};
  s.sum.resize(s.distributions * s.groups);
  s.weight.resize(s.sum.size());
  s.pairs.resize(s.sum.size());
  return s;
}

/// Most cells along a side of a heatmap; with more, its sums alone would take 4 GB per head.
inline constexpr index_t most_cells = 16384;

/// Returns the cells along a side of the problems' heatmaps, over the distances of all keys. No pair extends further
/// than tau: if keys go on far beyond the query buckets, twice the last tau is enough.
inline index_t heatmap_width(const keys_by_document& groups, const std::vector<pair_problem>& problems, index_t cell) {
  index_t end = 0, last = 0;
  for (const std::int32_t t : groups.position) end = std::max<index_t>(end, index_t{t} + 1);
  for (const auto& p : problems)
    for (const auto& scores : p.distributions) last = std::max(last, static_cast<index_t>(scores.tau) + 1);
  const index_t length = std::max(last, std::min(end, 2 * last)), width = (length + cell - 1) / cell;
  require(width <= most_cells, "heatmap_cell: cells of ", cell, " tokens over ", length, " are more than the ",
          most_cells, " a side that a heatmap may have");
  return width;
}

/// Returns sums of 0 for each problem, with a heatmap if `request` has one.
inline std::vector<pair_sums> empty_sums(const keys_by_document& groups, const std::vector<pair_problem>& problems,
                                         const pair_request& request) {
  const index_t width = request.heatmap_cell > 0 ? heatmap_width(groups, problems, request.heatmap_cell) : 0;
  std::vector<pair_sums> results;
  for (const auto& p : problems) {
    auto s = zero_sums(groups, p.distributions.size());
    s.heatmap_width = width;
    s.heatmap_sum.resize(width * width);
    s.heatmap_weight.resize(s.heatmap_sum.size());
    results.push_back(std::move(s));
  }
  return results;
}

/// The pairs that one query bucket draws, by group: group g has pairs [offset[g], offset[g + 1]).
struct pair_draws {
  bool all = false;   ///< all admissible pairs, each once; `pairs` is then empty
  double weight = 1;  ///< admissible pairs per drawn pair
  std::vector<std::int64_t> offset;
  std::vector<rank_pair> pairs;
};

/// Draws pairs for query bucket `bucket` of problem `problem`: uniformly among the admitted pairs, with replacement.
inline pair_draws draw_pairs(const keys_by_document& groups, const score_distribution& scores,
                             const pair_sample& sample, index_t problem, index_t bucket) {
  const index_t n = groups.groups();
  std::vector<std::int64_t> before{0};
  for (index_t g = 0; g < n; ++g)
    before.push_back(before.back() + (scores.empty() ? 0 : admissible(groups, g, scores).pairs()));
  pair_draws result;
  result.all = sample.pairs == 0 || before[n] <= sample.pairs;
  if (result.all) return result;
  result.weight = static_cast<double>(before[n]) / static_cast<double>(sample.pairs);
  const random_stream stream{sample.seed, static_cast<std::uint32_t>(problem << 16 | bucket), sample.layer, draw::pair};
  std::vector<std::pair<std::int32_t, rank_pair>> drawn;
  result.offset.assign(before.size(), 0);
  for (index_t i = 0; i < sample.pairs; ++i) {
    const auto r =
        static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(before[n])));
    const index_t g = std::upper_bound(before.begin(), before.end(), r) - before.begin() - 1;
    drawn.emplace_back(static_cast<std::int32_t>(g), pair_of_number(r - before[g]));
    ++result.offset[g + 1];
  }
  for (index_t g = 0; g < n; ++g) result.offset[g + 1] += result.offset[g];
  auto next = result.offset;
  result.pairs.resize(drawn.size());
  for (const auto& [g, pair] : drawn) result.pairs[next[g]++] = pair;
  return result;
}

}  // namespace qkgeom::backend
