// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "qkgeom/context/pair_formula.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/householder.hpp"
#include "qkgeom/model/query_model.hpp"

namespace qkgeom::detail {

/// A pair of keys of one document, and the run of query buckets with a model that admit it.
struct admitted_pair {
  index_t row_i = 0, row_j = 0;        ///< rows of the layer's k, the earlier key first
  std::size_t document = 0;            ///< group of the keys
  std::size_t first = 0, buckets = 0;  ///< first bucket and length of the run, at least 1
};

/// A sample of the pairs that at least one query bucket admits, each kept with the same probability.
struct admitted_pairs {
  std::vector<admitted_pair> pairs;
  double all = 0;  ///< number of admitted pairs
};

/// Gives the indices of a long list's kept entries, each kept with probability `chance`, without visiting the others.
class kept_numbers {
 public:
  kept_numbers(double chance, const random_stream& stream)
      : log_missed_(chance < 1 ? std::log1p(-chance) : 0), stream_(stream) {
    step();
  }
  double next() const { return next_; }
  void advance() {
    ++next_;
    step();
  }

 private:
  void step() {
    if (log_missed_ < 0) next_ += std::floor(std::log1p(-stream_.uniform(count_++)) / log_missed_);
  }
  double log_missed_;
  random_stream stream_;
  std::uint64_t count_ = 0;
  double next_ = 0;
};

/// Keys [begin, j) of a group may be the earlier key of a pair with key j; `first` is the pairs' first bucket.
struct partners {
  index_t begin = 0;
  std::size_t first = 0;
};

/// Finds the partners of key j in the group that starts at `group_begin`; the distributions are those with a model.
inline partners partners_of(const keys_by_document& keys, index_t group_begin, index_t j,
                            const std::vector<score_distribution>& distributions) {
  const auto t = keys.position[j];
  const auto distribution = std::partition_point(distributions.begin(), distributions.end(),
                                                 [&](const score_distribution& l) { return l.before <= t; });
  partners p{j, static_cast<std::size_t>(distribution - distributions.begin())};
  if (distribution == distributions.end()) return p;
  const auto first = keys.position.begin() + group_begin, last = keys.position.begin() + j;
  p.begin = std::partition_point(first, last, [&](std::int32_t s) { return !(s > distribution->after); }) -
            keys.position.begin();
  return p;
}

/// Draws about `max_pairs` of the pairs that the distributions admit, or returns all if there are no more. Heads whose
/// buckets admit the same positions get the same pairs.
inline admitted_pairs draw_admitted_pairs(const keys_by_document& keys,
                                          const std::vector<score_distribution>& distributions, index_t max_pairs,
                                          std::uint64_t seed) {
  admitted_pairs result;
  const auto each = [&](auto&& visit) {
    for (index_t g = 0; g < keys.groups(); ++g) {
      const index_t begin = keys.offset[g], end = keys.offset[g + 1];
      for (index_t j = begin + 1; j < end; ++j)
        if (const auto p = partners_of(keys, begin, j, distributions); p.begin < j) visit(g, j, p);
    }
  };
  each([&](index_t, index_t j, const partners& p) { result.all += static_cast<double>(j - p.begin); });
  const double chance = result.all > 0 ? std::min(1.0, static_cast<double>(max_pairs) / result.all) : 1.0;
  kept_numbers kept(chance, {seed, 0, 0, draw::decay_pair});
  double passed = 0;
  each([&](index_t g, index_t j, const partners& p) {
    for (; kept.next() < passed + static_cast<double>(j - p.begin); kept.advance()) {
      const index_t i = p.begin + static_cast<index_t>(kept.next() - passed);
      const double t_i = keys.position[i];
      const auto past =
          std::partition_point(distributions.begin() + static_cast<std::ptrdiff_t>(p.first), distributions.end(),
                               [&](const score_distribution& l) { return t_i > l.after; });
      result.pairs.push_back({keys.row[i], keys.row[j], static_cast<std::size_t>(g), p.first,
                              static_cast<std::size_t>(past - distributions.begin()) - p.first});
    }
    passed += static_cast<double>(j - p.begin);
  });
  return result;
}

struct pair_decay {
  double gamma = 0, z_0 = 0, t_0 = std::numeric_limits<double>::infinity();
  double slope = std::numeric_limits<double>::quiet_NaN(),
         relative_slope = slope;   ///< slope of v over tau; NaN for one bucket
  double first_plasticity = 0;     ///< in the first bucket
  bool still = false;              ///< delta_1 = 0
  std::vector<double> plasticity;  ///< (buckets of the pair)

  double bound(double t) const { return std::exp(-gamma * gamma * t * t / 8); }
  /// Returns whether t, in the pair's bucket b, is past T_0 and the plasticity exceeds the bound beyond rounding.
  bool breaks(double t, std::size_t b) const { return t >= t_0 && plasticity[b] > bound(t) * (1 + 1e-12); }
};

/// Returns |F_c' delta|^2 over at most 8 columns [first, last) of a factor F (d, rank); 8 sums stay in registers.
inline double square_of_columns(const std::vector<double>& factor, std::size_t rank, std::size_t first,
                                std::size_t last, const std::vector<double>& delta) {
  std::array<double, 8> z{};
  const double* row = factor.data() + first;
  if (last - first == 8) {
    for (const double x : delta) {
      for (std::size_t c = 0; c < 8; ++c) z[c] += x * row[c];
      row += rank;
    }
  } else {
    for (const double x : delta) {
      for (std::size_t c = 0; c < last - first; ++c) z[c] += x * row[c];
      row += rank;
    }
  }
  double square = 0;
  for (const double x : z) square += x * x;
  return square;
}

/// Returns mean and variance of the score difference of delta = k_i - k_j; `reflected` is H delta.
inline std::pair<double, double> score_difference(const score_distribution& distribution,
                                                  const std::vector<double>& delta,
                                                  const std::vector<double>& reflected) {
  double v = 0;
  if (!distribution.variance.empty()) {
    for (std::size_t c = 0; c < delta.size(); ++c) v += distribution.variance[c] * reflected[c] * reflected[c];
    return {dense::dot(distribution.mean, delta), v};
  }
  const std::size_t rank = distribution.rank;
  for (std::size_t c = 0; c < rank; c += 8)
    v += square_of_columns(distribution.factor, rank, c, std::min(rank, c + 8), delta);
  return {dense::dot(distribution.mean, delta), v};
}

/// Returns the least-squares slope of v over t, and that slope divided by the mean of v.
inline std::pair<double, double> variance_slope(const std::vector<std::pair<double, double>>& points) {
  double n = static_cast<double>(points.size()), mean_t = 0, mean_v = 0, tv = 0, tt = 0;
  for (const auto& [t, v] : points) mean_t += t / n, mean_v += v / n;
  for (const auto& [t, v] : points) tv += (t - mean_t) * (v - mean_v), tt += (t - mean_t) * (t - mean_t);
  const double none = std::numeric_limits<double>::quiet_NaN();
  if (!(tt > 0)) return {none, none};
  return {tv / tt, mean_v > 0 ? tv / tt / mean_v : none};
}

/// Computes the constants of one pair of keys k (n, d), for distributions with a model. Throws if a key is not finite.
template <class T>
pair_decay decay_of_pair(const matrix_view<const T>& k, const admitted_pair& pair, const query_model& model,
                         const std::vector<score_distribution>& distributions) {
  std::vector<double> delta(k.cols);
  double size = 0;
  for (index_t c = 0; c < k.cols; ++c) {
    const auto i = static_cast<double>(k(pair.row_i, c)), j = static_cast<double>(k(pair.row_j, c));
    delta[c] = i - j;
    size += i * i + j * j;
  }
  require(std::isfinite(size), "decay_of: row ", pair.row_i, " or ", pair.row_j, " of k is not finite");
  const auto reflected = reflect(model.reflector, delta);
  pair_decay result;
  // A first coordinate of H(k_i - k_j) below this is rounding of the reflection.
  result.still = std::abs(reflected[0]) <= 8 * std::numeric_limits<double>::epsilon() * std::sqrt(size);
  const double drift = result.still ? 0.0 : reflected[0] * model.beta_pos;
  std::vector<std::pair<double, double>> variances;
  for (std::size_t b = 0; b < pair.buckets; ++b) {
    const auto& distribution = distributions[pair.first + b];
    const auto [m, v] = score_difference(distribution, delta, reflected);
    result.plasticity.push_back(pair_plasticity(m, v));
    variances.emplace_back(distribution.tau, v);
    if (b > 0) continue;
    const double m_0 = m - drift * distribution.tau;
    result.gamma = drift == 0 ? 0.0 : drift / std::sqrt(v);
    result.z_0 = m_0 / std::sqrt(v);
    if (drift != 0) result.t_0 = 2 * std::abs(m_0) / std::abs(drift);
    result.first_plasticity = result.plasticity[0];
  }
  std::tie(result.slope, result.relative_slope) = variance_slope(variances);
  return result;
}

}  // namespace qkgeom::detail
