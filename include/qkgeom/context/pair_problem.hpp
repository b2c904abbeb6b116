// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {

/// The score distribution of one query bucket. For two keys with delta = k_i - k_j the score difference q . delta has
/// the mean m = mean . delta and the variance v = sum_c variance_c (H delta)_c^2, or |factor' delta|^2 (4.11, 4.12).
struct score_distribution {
  std::vector<double> mean;      ///< (d), in the keys' own coordinates
  std::vector<double> variance;  ///< (d), along the reflected coordinates; empty: `factor` holds the covariance
  std::vector<double> factor;    ///< (d, rank), row-major, in the keys' own coordinates
  index_t rank = 0;
  double tau = 0;      ///< query position, tokens
  index_t before = 0;  ///< keys at positions below this are admissible
  double after = -1;   ///< keys at positions above this are admissible (windowed layers)
  bool empty() const { return mean.empty(); }
};

/// The pair sums to compute for one query head: its distributions against the keys of one key head.
struct pair_problem {
  index_t key_head = 0;
  std::vector<double> reflector;                  ///< unit u of H = I - 2uu', (d); empty: H = I
  std::vector<score_distribution> distributions;  ///< one per query bucket
};

/// The pair sums to compute for the observed queries of one head, against the keys of one key head.
struct empirical_problem {
  index_t query_head = 0, key_head = 0;
  std::vector<std::vector<index_t>> query_rows;   ///< (distributions) rows of q
  std::vector<score_distribution> distributions;  ///< one per query bucket; only `before`, `after`, `tau` are read
};

/// The argument of a pair's weight. Ranks number the admissible keys of the pair's group in position order, from 0.
struct key_pair {
  index_t i = 0, j = 0, keys = 0;               ///< ranks i < j; number of admissible keys of the group
  std::int32_t t_i = 0, t_j = 0;                ///< positions t_i <= t_j, tokens
  std::int32_t document_i = 0, document_j = 0;  ///< document ids; they differ only across documents
  double tau = 0;                               ///< query position of the bucket, tokens
  QKGEOM_HD index_t distance() const { return index_t{t_j} - t_i; }
};

/// The weight of a pair, at least 0; 0 leaves the pair out. Empty: each pair weighs 1. Several threads call it at once.
using pair_weight = std::function<double(const key_pair&)>;

/// Weighs a pair whose later key is the n-th of m by 2 / (m - 1) (1 / (n - 1) - 1 / m), the probability of the pair for
/// N uniform on {2..m} and a uniform pair of the first N keys (Definition 4.3).
struct prefix_weight {
  static constexpr bool of_later_key = true;  ///< reads only j and keys of a pair: a device evaluates it once per key
  QKGEOM_HD double operator()(const key_pair& p) const {
    const double keys = static_cast<double>(p.keys), n = static_cast<double>(p.j + 1);
    return 2.0 / (keys - 1.0) * (1.0 / (n - 1.0) - 1.0 / keys);
  }
};

enum class pair_precision { f32, f64 };
/// Default arithmetic for pairs of keys of type T.
template <class T>
inline constexpr pair_precision usual_precision =
    std::is_same_v<compute_t<T>, double> ? pair_precision::f64 : pair_precision::f32;

/// Draws `pairs` admissible pairs per distribution, uniformly and with replacement. 0 uses all pairs; so does a
/// distribution with at most `pairs` of them. Draw n of distribution l of problem p is keyed by (seed, layer, p, l, n).
struct pair_sample {
  index_t pairs = 0;
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;
};

/// Terms of the plasticity of a pair i < j in the coordinates of the query model, delta = H(k_i - k_j), in order: P(q .
/// k_j > q . k_i), the later key wins (1/2 for keys at one position); |delta_1 mean_1|; |delta' mean| over coordinates
/// 2..d; delta_1^2 variance_1 (variance of eps: sigma_pos^2, under `joint` the bucket's); delta' covariance delta over
/// 2..d; the share of v from the covariance of coordinate 1 with the others (0 unless `joint`); |z|.
enum class pair_term { later_wins, drift_mean, content_mean, drift_variance, content_variance, cross_variance, abs_z };
inline constexpr index_t pair_terms = 7;
constexpr std::string_view name_of(pair_term p) {
  constexpr std::string_view names[] = {"later_wins",       "drift_mean",     "content_mean", "drift_variance",
                                        "content_variance", "cross_variance", "abs_z"};
  return names[static_cast<int>(p)];
}

/// Options of `gaussian_pairs`.
struct pair_request {
  pair_weight weight{};
  std::optional<pair_precision> precision{};  ///< default: `usual_precision`; drawn pairs are always f64, terms mostly
  index_t heatmap_cell = 0;                   ///< cell width in tokens; 0: no heatmap
  pair_sample sample{};
  bool terms = false;  ///< also sum each `pair_term`
};

/// Sums per heatmap cell: value 0 is the plasticity, value 1 + p is term p. The sums S_g, W_g of group g, their squares
/// and products give errors over groups. Two of these merge by addition.
struct heatmap_terms {
  static constexpr index_t values = 1 + pair_terms;
  std::vector<double> groups, weight, weight_square;  ///< (cells) number of groups with weight, sums of W_g, of W_g^2
  std::vector<double> sum, square, product;           ///< (cells, values) sums of S_g, S_g^2, S_g W_g
};

/// An array of `heatmap_terms` and its number of values per cell.
struct heatmap_array {
  std::vector<double> heatmap_terms::*values;
  index_t depth;
};
inline constexpr heatmap_array heatmap_arrays[] = {{&heatmap_terms::groups, 1},
                                                   {&heatmap_terms::weight, 1},
                                                   {&heatmap_terms::weight_square, 1},
                                                   {&heatmap_terms::sum, heatmap_terms::values},
                                                   {&heatmap_terms::square, heatmap_terms::values},
                                                   {&heatmap_terms::product, heatmap_terms::values}};

/// Returns zero sums for a heatmap of `cells` cells.
inline heatmap_terms blank_cells(std::size_t cells) {
  heatmap_terms x;
  for (const auto& a : heatmap_arrays) (x.*a.values).assign(cells * a.depth, 0.0);
  return x;
}

/// Sums over pairs per group (document): all that means, errors over documents and merges need.
struct pair_sums {
  index_t distributions = 0, groups = 0;
  std::vector<double> sum;          ///< (distributions, groups) weighted plasticity; drawn pairs give an estimate of it
  std::vector<double> weight;       ///< (distributions, groups)
  std::vector<std::int64_t> pairs;  ///< (distributions, groups) pairs of weight above 0
  index_t heatmap_width = 0;        ///< cells along each side
  std::vector<double> heatmap_sum;  ///< (key distance, query distance)
  std::vector<double> heatmap_weight;
  std::vector<std::int64_t> drawn{};  ///< (distributions, groups) pairs drawn; 0: all were used; empty: no draws
  std::vector<double> square{};       ///< (distributions, groups) weighted squared plasticity of drawn pairs
  std::vector<double> term_sum{};     ///< (distributions, groups, terms) weighted, with `pair_request::terms`
  heatmap_terms cells{};              ///< of the heatmap, with `pair_request::terms`

  std::size_t at(index_t distribution, index_t group) const { return distribution * groups + group; }
};

/// Keys of a layer in the order of the pair kernels: by group, then position. A group is a document, or all documents.
/// Group g is the range [offset[g], offset[g + 1]).
struct keys_by_document {
  std::vector<std::int64_t> row;             ///< row of the layer's k
  std::vector<std::int32_t> position;        ///< (n) ascending within a group
  std::vector<index_t> offset;               ///< (groups + 1)
  std::vector<std::int32_t> document;        ///< (groups) document id; -1: all documents
  std::vector<std::int32_t> key_document{};  ///< (n) document ids; empty: each group is one document
  index_t groups() const { return static_cast<index_t>(offset.size()) - 1; }
};

/// Returns a distribution that only says which keys a query bucket admits: keys before position `before`, the bucket's
/// start, and in windowed layers after tau - window (tokens).
inline score_distribution admitting(index_t before, double tau, std::optional<index_t> window) {
  score_distribution distribution;
  distribution.tau = tau;
  distribution.before = before;
  if (window) distribution.after = tau - static_cast<double>(*window);
  return distribution;
}

/// A half-open range of ranks of a group's keys.
struct rank_range {
  index_t begin = 0, end = 0;
  QKGEOM_HD index_t size() const { return end > begin ? end - begin : 0; }
  QKGEOM_HD std::int64_t pairs() const { return size() * (size() - 1) / 2; }
};

/// Returns the ranks of the group's keys that the distribution admits.
inline rank_range admissible(const keys_by_document& groups, index_t group, const score_distribution& distribution) {
  const auto first = groups.position.begin() + groups.offset[group];
  const auto last = groups.position.begin() + groups.offset[group + 1];
  const auto begin = std::partition_point(first, last, [&](std::int32_t t) { return !(t > distribution.after); });
  const auto end = std::lower_bound(first, last, distribution.before);
  return {begin - first, end - first};
}

/// The admissible keys of one group: [first, first + count) in the order of `keys_by_document`.
struct group_range {
  index_t first = 0, count = 0, group = 0;
};

/// Returns the admissible keys of each group that has at least two.
inline std::vector<group_range> ranges_of(const keys_by_document& groups, const score_distribution& distribution) {
  std::vector<group_range> ranges;
  for (index_t g = 0; g < groups.groups(); ++g) {
    const auto r = admissible(groups, g, distribution);
    if (r.size() >= 2) ranges.push_back({groups.offset[g] + r.begin, r.size(), g});
  }
  return ranges;
}

/// Ranks i < j of a pair.
struct rank_pair {
  std::int32_t i = 0, j = 0;
};

/// Returns the pair with number r = j (j - 1) / 2 + i.
QKGEOM_HD inline rank_pair pair_of_number(std::int64_t r) {
  auto j = static_cast<std::int64_t>(0.5 * (1.0 + std::sqrt(1.0 + 8.0 * static_cast<double>(r))));
  while (j * (j - 1) / 2 > r) --j;
  while (j * (j + 1) / 2 <= r) ++j;
  return {static_cast<std::int32_t>(r - j * (j - 1) / 2), static_cast<std::int32_t>(j)};
}

}  // namespace qkgeom
