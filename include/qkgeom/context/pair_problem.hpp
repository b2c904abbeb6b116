// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {

/// Score distribution of one query bucket, as the pair kernels need it: for keys i, j with delta = k_i - k_j,
/// m = mean . delta and v = sum_c variance_c (H delta)_c^2 or |factor' delta|^2.
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

/// The exact pair sums of one query head: its distributions, one a query bucket, against the keys of one key head.
struct pair_problem {
  index_t key_head = 0;
  std::vector<double> reflector;  ///< unit u of H = I - 2uu', (d); empty: H = I
  std::vector<score_distribution> distributions;
};

/// Observed queries against the keys of one key head: bucket b's rows of q, and what it admits.
struct empirical_problem {
  index_t query_head = 0, key_head = 0;
  std::vector<std::vector<index_t>> query_rows;   ///< (distributions) rows of q
  std::vector<score_distribution> distributions;  ///< only `before`, `after`, `tau` are read
};

/// A pair of keys as a weight sees it. Ranks count the admissible keys of the pair's group in position order, from 0.
struct key_pair {
  index_t i = 0, j = 0, keys = 0;               ///< ranks i < j, and how many keys the group admits
  std::int32_t t_i = 0, t_j = 0;                ///< positions t_i <= t_j, tokens
  std::int32_t document_i = 0, document_j = 0;  ///< document ids; they differ only across documents
  double tau = 0;                               ///< query position of the bucket, tokens
  QKGEOM_HD index_t distance() const { return index_t{t_j} - t_i; }
};

/// Weight of a pair, 0 or more: 0 leaves the pair out, true and false say which pairs belong to a set. Empty: every
/// pair counts 1. Called by several threads at once.
using pair_weight = std::function<double(const key_pair&)>;

/// The weight of a pair whose later key is the n-th of m, if N is uniform on {2..m} and the pair uniform among the
/// first N keys: 2 / (m - 1) (1 / (n - 1) - 1 / m) (Definition 4.3).
struct prefix_weight {
  static constexpr bool of_later_key = true;  ///< reads j and keys alone, so a device asks once a key
  QKGEOM_HD double operator()(const key_pair& p) const {
    const double keys = static_cast<double>(p.keys), n = static_cast<double>(p.j + 1);
    return 2.0 / (keys - 1.0) * (1.0 / (n - 1.0) - 1.0 / keys);
  }
};

enum class pair_precision { f32, f64 };
/// In what pairs of keys of T are computed unless the caller says otherwise.
template <class T>
inline constexpr pair_precision usual_precision =
    std::is_same_v<compute_t<T>, double> ? pair_precision::f64 : pair_precision::f32;

/// Pairs drawn instead of all: `pairs` a distribution, uniform over its admissible pairs, with replacement; 0: all
/// pairs. Draw n of distribution l of problem p depends on (seed, layer, p, l, n) alone. A distribution with at most
/// `pairs` pairs takes each once.
struct pair_sample {
  index_t pairs = 0;
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;
};

/// What stands behind the plasticity of a pair i < j, in the coordinates of the query model: with delta = H(k_i - k_j),
/// P(q . k_j > q . k_i) (the later key wins; 1/2 for keys at one position); |delta_1 mean_1|, |delta' mean| over
/// coordinates 2..d; delta_1^2 variance_1, delta' covariance delta over coordinates 2..d, and what the covariance of
/// coordinate 1 with the others adds to v (only `joint` has it); |z|.
enum class pair_term { later_wins, drift_mean, content_mean, drift_variance, content_variance, cross_variance, abs_z };
inline constexpr index_t pair_terms = 7;
constexpr std::string_view name_of(pair_term p) {
  constexpr std::string_view names[] = {"later_wins",       "drift_mean",     "content_mean", "drift_variance",
                                        "content_variance", "cross_variance", "abs_z"};
  return names[static_cast<int>(p)];
}

struct pair_request {
  pair_weight weight{};
  std::optional<pair_precision> precision{};  ///< none: f64 for f64 keys, else f32; drawn pairs are f64, terms mostly
  index_t heatmap_cell = 0;                   ///< cell width in tokens; 0: no heatmap
  pair_sample sample{};
  bool terms = false;  ///< sums of the pair_terms too
};

/// Sums of a heatmap's cells, value 0 being the plasticity and value 1 + p term p, with the sums over groups of
/// products of a group's sums, from which errors over groups follow. They merge by addition.
struct heatmap_terms {
  static constexpr index_t values = 1 + pair_terms;
  std::vector<double> groups, weight, weight_square;  ///< (cells) groups with weight, sum of weights W_g, of W_g^2
  std::vector<double> sum, square, product;           ///< (cells, values) sums of S_g, S_g^2, S_g W_g
};

/// The arrays of heatmap_terms, and how many numbers a cell has in each.
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

/// Sums of zero for a heatmap of that many cells.
inline heatmap_terms blank_cells(std::size_t cells) {
  heatmap_terms x;
  for (const auto& a : heatmap_arrays) (x.*a.values).assign(cells * static_cast<std::size_t>(a.depth), 0.0);
  return x;
}

/// Sums over pairs, kept apart by group (document), so that means, errors over documents and merges need nothing else.
struct pair_sums {
  index_t distributions = 0, groups = 0;
  std::vector<double> sum;     ///< (distributions, groups) weighted plasticity; of drawn pairs, as an estimate for all
  std::vector<double> weight;  ///< (distributions, groups) weights
  std::vector<std::int64_t> pairs;  ///< (distributions, groups) pairs of the set, of a weight above 0
  index_t heatmap_width = 0;        ///< cells along each side
  std::vector<double> heatmap_sum;  ///< (key distance, query distance)
  std::vector<double> heatmap_weight;
  std::vector<std::int64_t> drawn{};  ///< (distributions, groups) pairs drawn, 0 where all were used; empty: all were
  std::vector<double> square{};       ///< (distributions, groups) weighted squares of drawn pairs' plasticity
  std::vector<double> term_sum{};     ///< (distributions, groups, terms) weighted, if asked for
  heatmap_terms cells{};              ///< of the heatmap, if terms were asked for

  std::size_t at(index_t distribution, index_t group) const {
    return static_cast<std::size_t>(distribution * groups + group);
  }
};

/// Keys of a layer in the order of the pair kernels: by group, then position. Group g is [offset[g], offset[g + 1]).
struct keys_by_document {
  std::vector<std::int64_t> row;             ///< row of the layer's k
  std::vector<std::int32_t> position;        ///< (n) ascending within a group
  std::vector<index_t> offset;               ///< (groups + 1)
  std::vector<std::int32_t> document;        ///< (groups) document id; -1 where a group holds all documents
  std::vector<std::int32_t> key_document{};  ///< (n) document ids, for weights; empty: the group's
  index_t groups() const { return static_cast<index_t>(offset.size()) - 1; }
};

}  // namespace qkgeom
