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
#include "qkgeom/plasticity/profile.hpp"

namespace qkgeom {

/// A pair of keys of one document and the query buckets that admit it: a run of the buckets that have a model.
struct admitted_pair {
  index_t row_i = 0, row_j = 0;        ///< rows of the layer's k, the earlier key first
  std::size_t document = 0;            ///< index among the groups of keys
  std::size_t first = 0, buckets = 0;  ///< the first of the run, and its length of at least 1
};

/// Pairs of a layer that at least one query bucket admits, each kept with the same probability.
struct admitted_pairs {
  std::vector<admitted_pair> pairs;
  double all = 0;  ///< how many there are
};

namespace detail {

/// Numbers of kept entries of a long list in which each is kept with the same chance, without visiting the others.
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

/// The keys of one group that can be the earlier key of a pair with key j, [from, j), and the run's first bucket.
struct partners {
  index_t from = 0;
  std::size_t first = 0;
};

/// Distributions are those of the buckets that have a model, in order.
inline partners partners_of(const keys_by_document& keys, index_t begin, index_t j,
                            const std::vector<score_distribution>& distributions) {
  const auto t = keys.position[j];
  const auto distribution = std::partition_point(distributions.begin(), distributions.end(),
                                                 [&](const score_distribution& l) { return l.before <= t; });
  partners p{j, static_cast<std::size_t>(distribution - distributions.begin())};
  if (distribution == distributions.end()) return p;
  const auto first = keys.position.begin() + begin, last = keys.position.begin() + j;
  p.from = std::partition_point(first, last, [&](std::int32_t s) { return !(s > distribution->after); }) -
           keys.position.begin();
  return p;
}

}  // namespace detail

/// Draws about `most` of the pairs that the distributions admit, or takes all if there are no more; the same for every
/// head whose buckets admit the same positions, for any number of threads.
inline admitted_pairs draw_admitted_pairs(const keys_by_document& keys,
                                          const std::vector<score_distribution>& distributions, index_t most,
                                          std::uint64_t seed) {
  admitted_pairs result;
  const auto each = [&](auto&& visit) {
    for (index_t g = 0; g < keys.groups(); ++g) {
      const index_t begin = keys.offset[g], end = keys.offset[static_cast<std::size_t>(g) + 1];
      for (index_t j = begin + 1; j < end; ++j)
        if (const auto p = detail::partners_of(keys, begin, j, distributions); p.from < j) visit(g, j, p);
    }
  };
  each([&](index_t, index_t j, const detail::partners& p) { result.all += static_cast<double>(j - p.from); });
  const double chance = result.all > 0 ? std::min(1.0, static_cast<double>(most) / result.all) : 1.0;
  detail::kept_numbers kept(chance, {seed, 0, 0, draw::decay_pair});
  double passed = 0;
  each([&](index_t g, index_t j, const detail::partners& p) {
    for (; kept.next() < passed + static_cast<double>(j - p.from); kept.advance()) {
      const index_t i = p.from + static_cast<index_t>(kept.next() - passed);
      const double t_i = keys.position[i];
      const auto past =
          std::partition_point(distributions.begin() + static_cast<std::ptrdiff_t>(p.first), distributions.end(),
                               [&](const score_distribution& l) { return t_i > l.after; });
      result.pairs.push_back({keys.row[i], keys.row[j], static_cast<std::size_t>(g), p.first,
                              static_cast<std::size_t>(past - distributions.begin()) - p.first});
    }
    passed += static_cast<double>(j - p.from);
  });
  return result;
}

namespace detail {

/// What the theorem says of one pair.
struct pair_decay {
  double gamma = 0, z_0 = 0, t_0 = std::numeric_limits<double>::infinity();
  double slope = std::numeric_limits<double>::quiet_NaN(), relative_slope = slope;  ///< of v; NaN in one bucket alone
  double first_plasticity = 0;                                                      ///< in the first bucket
  bool still = false;                                                               ///< delta_1 = 0
  std::vector<double> plasticity;                                                   ///< (buckets of the pair)

  double bound(double t) const { return std::exp(-gamma * gamma * t * t / 8); }
  /// Bucket b of the pair, at t, lies past T_0 and above the bound, by more than rounding.
  bool breaks(double t, std::size_t b) const { return t >= t_0 && plasticity[b] > bound(t) * (1 + 1e-12); }
};

/// |F_c' delta|^2 over the columns [first, last), at most 8, of a factor F (d, rank): so many sums stay in registers.
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

/// Mean and variance of the score difference of delta = k_i - k_j; `reflected` is H delta.
inline std::pair<double, double> score_difference(const score_distribution& distribution,
                                                  const std::vector<double>& delta,
                                                  const std::vector<double>& reflected) {
  double v = 0;
  if (!distribution.variance.empty()) {
    for (std::size_t c = 0; c < delta.size(); ++c) v += distribution.variance[c] * reflected[c] * reflected[c];
    return {dense::dot(distribution.mean, delta), v};
  }
  const auto rank = static_cast<std::size_t>(distribution.rank);
  for (std::size_t c = 0; c < rank; c += 8)
    v += square_of_columns(distribution.factor, rank, c, std::min(rank, c + 8), delta);
  return {dense::dot(distribution.mean, delta), v};
}

/// A straight line through (t, v): its slope, and the slope over the mean of v.
inline std::pair<double, double> slope_of(const std::vector<std::pair<double, double>>& points) {
  double n = static_cast<double>(points.size()), mean_t = 0, mean_v = 0, tv = 0, tt = 0;
  for (const auto& [t, v] : points) mean_t += t / n, mean_v += v / n;
  for (const auto& [t, v] : points) tv += (t - mean_t) * (v - mean_v), tt += (t - mean_t) * (t - mean_t);
  const double null = std::numeric_limits<double>::quiet_NaN();
  if (!(tt > 0)) return {null, null};
  return {tv / tt, mean_v > 0 ? tv / tt / mean_v : null};
}

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
  // Below this the first coordinate of H(k_i - k_j) is rounding of the reflection.
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
  std::tie(result.slope, result.relative_slope) = slope_of(variances);
  return result;
}

}  // namespace detail

}  // namespace qkgeom
