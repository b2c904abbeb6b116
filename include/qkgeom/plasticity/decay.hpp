// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/context/pair_formula.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/householder.hpp"
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/plasticity/keys_by_document.hpp"
#include "qkgeom/stats/jackknife.hpp"
#include "qkgeom/stats/quantile.hpp"

namespace qkgeom {

struct decay_options {
  index_t max_pairs = 8192;  ///< pairs of keys per layer; if there are more, about this many are drawn
  std::uint64_t seed = 0;
  query_position position = query_position::middle;  ///< tau of the models of `check_decay`
};

/// Quantiles of a number over pairs; NaN without pairs.
struct decay_spread {
  double p10 = std::numeric_limits<double>::quiet_NaN();
  double median = std::numeric_limits<double>::quiet_NaN();
  double p90 = std::numeric_limits<double>::quiet_NaN();
};

/// Plasticity of one query bucket and its bound (A.5) at t = tau: means over pairs, with errors over documents.
struct decay_bucket {
  index_t start = 0, end = 0;  ///< tokens
  double tau = 0;              ///< tokens
  index_t pairs = 0;           ///< drawn pairs that the bucket admits
  estimate plasticity;         ///< AP_t
  estimate bound;              ///< mean(min(1, exp(-gamma^2 t^2 / 8)))
  estimate promised;           ///< mean bound; 1 for pairs with t < T_0, which the theorem does not bound
  estimate past;               ///< share of pairs with t >= T_0
  estimate broken;             ///< share of pairs with t >= T_0 and a plasticity above exp(-gamma^2 t^2 / 8)
};

/// The decay theorem (4.4, A.1) on one head: z(t) = gamma t + z_0, gamma = delta_1 beta_pos / sqrt v, under the model
/// of a pair's first bucket; for t >= T_0 = 2 |z_0| / |gamma| it bounds plasticity by exp(-gamma^2 t^2 / 8). Key i of a
/// pair is the earlier one, and delta = H(k_i - k_j).
struct decay_result {
  std::string covariance;              ///< label of the model
  double alpha_pos = 0, beta_pos = 0;  ///< of the query model; the theorem needs beta_pos > 0
  index_t pairs = 0;                   ///< pairs drawn
  double all_pairs = 0;                ///< pairs that some bucket admits
  decay_spread gamma, abs_gamma;       ///< per token, over pairs with gamma != 0
  decay_spread z_0, t_0;               ///< z at t = 0; T_0 in tokens; over the same pairs
  decay_spread variance_slope;         ///< slope of v over t, divided by the mean of v, per token; the theorem needs 0
  estimate variance_slope_mean;        ///< mean slope of v over t, per token
  estimate pi_0;                       ///< share of pairs with delta_1 = 0
  estimate ap_infinity;                ///< pi_0 E[PP | delta_1 = 0] (4.15, A.9)
  estimate past, broken;               ///< as in `decay_bucket`, over all pairs and their buckets
  std::vector<decay_bucket> buckets;
};

/// The theorem under two query models.
struct decay_check {
  decay_result full;    ///< covariance `full`, one per bucket
  decay_result pooled;  ///< covariance `full`, one for all buckets (`with_pooled_covariance`)
};

/// Checks the decay theorem on each head of a layer (docs/mathematics.md, Decay theorem); `moments` are the layer's,
/// with the covariance of each query bucket. Needs rows on the host. Throws if the moments do not fit the layer.
template <context Context, class T>
std::vector<decay_check> check_decay(Context& ctx, const layer_moments& moments,
                                     const layer_view<T, memory_space::host>& layer, const decay_options& options = {});

/// Does the same for one head.
template <context Context, class T>
decay_check check_decay(Context& ctx, const head_moments& moments, const head_view<T, memory_space::host>& head,
                        const decay_options& options = {}) {
  const layer_moments layer{moments.buckets, {moments.q}, {moments.k}, {0}};
  return std::move(check_decay(ctx, layer, as_layer(head), options).front());
}

/// Checks the decay theorem on each head of a layer under query models of these heads, named by `label`, over pairs of
/// keys of one document. Costs O(pairs x buckets x d^2). Needs host rows. Throws if the models do not fit the layer, or
/// a key is not finite.
template <context Context, class T>
std::vector<decay_result> decay_of(Context& ctx, const std::vector<query_model>& models,
                                   const layer_view<T, memory_space::host>& layer, const std::string& label,
                                   const decay_options& options = {});

namespace detail {

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

/// Sums of a number over pairs by document, which give its mean with an error over documents.
struct decay_sums {
  std::vector<double> sum, weight;
  explicit decay_sums(std::size_t documents) : sum(documents), weight(documents) {}
  void add(std::size_t document, double value) {
    sum[document] += value;
    weight[document] += 1;
  }
  estimate mean() const { return ratio_of_sums(sum, weight); }
};

inline decay_spread spread_of(std::vector<double> x) {
  x.erase(std::remove_if(x.begin(), x.end(), [](double v) { return !std::isfinite(v); }), x.end());
  std::sort(x.begin(), x.end());
  return {quantile_of_sorted(x, 0.1), quantile_of_sorted(x, 0.5), quantile_of_sorted(x, 0.9)};
}

inline decay_bucket decay_bucket_of(const std::vector<admitted_pair>& pairs, const std::vector<pair_decay>& decay,
                                    std::size_t l, double tau, std::size_t documents) {
  decay_sums plasticity(documents), bound(documents), promised(documents), past(documents), broken(documents);
  decay_bucket out;
  out.tau = tau;
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    if (l < pairs[p].first || l >= pairs[p].first + pairs[p].buckets) continue;
    const auto e = pairs[p].document;
    const double pp = decay[p].plasticity[l - pairs[p].first], limit = decay[p].bound(tau);
    const bool is_past = tau >= decay[p].t_0;
    plasticity.add(e, pp);
    bound.add(e, limit);
    promised.add(e, is_past ? limit : 1.0);
    past.add(e, is_past);
    broken.add(e, decay[p].breaks(tau, l - pairs[p].first));
    ++out.pairs;
  }
  out.plasticity = plasticity.mean();
  out.bound = bound.mean();
  out.promised = promised.mean();
  out.past = past.mean();
  out.broken = broken.mean();
  return out;
}

/// The score distributions of the buckets with a model, and the indices of these buckets.
struct present_distributions {
  std::vector<score_distribution> distributions;
  std::vector<index_t> bucket;
};
inline present_distributions distributions_of(const query_model& model, std::optional<index_t> window) {
  present_distributions present;
  for (index_t b = 0; b < model.buckets.count(); ++b) {
    auto distribution = scores_of(model, b, window);
    if (distribution.empty()) continue;
    present.distributions.push_back(std::move(distribution));
    present.bucket.push_back(b);
  }
  return present;
}

inline decay_result decay_summary(const admitted_pairs& drawn, const std::vector<pair_decay>& decay,
                                  const query_model& model, const present_distributions& present, std::size_t documents,
                                  std::string label) {
  decay_result r;
  r.covariance = std::move(label);
  r.alpha_pos = model.alpha_pos;
  r.beta_pos = model.beta_pos;
  r.pairs = drawn.pairs.size();
  r.all_pairs = drawn.all;
  decay_sums pi_0(documents), ap_infinity(documents), slope(documents), past(documents), broken(documents);
  std::vector<double> gamma, abs_gamma, z_0, t_0, relative;
  for (std::size_t p = 0; p < decay.size(); ++p) {
    const auto& d = decay[p];
    const auto e = drawn.pairs[p].document;
    pi_0.add(e, d.still);
    ap_infinity.add(e, d.still ? d.first_plasticity : 0.0);
    if (!std::isnan(d.slope)) slope.add(e, d.slope);
    relative.push_back(d.relative_slope);
    for (std::size_t b = 0; b < d.plasticity.size(); ++b) {
      const double t = present.distributions[drawn.pairs[p].first + b].tau;
      past.add(e, t >= d.t_0);
      broken.add(e, d.breaks(t, b));
    }
    if (d.gamma == 0) continue;
    gamma.push_back(d.gamma);
    abs_gamma.push_back(std::abs(d.gamma));
    z_0.push_back(d.z_0);
    t_0.push_back(d.t_0);
  }
  r.gamma = spread_of(std::move(gamma));
  r.abs_gamma = spread_of(std::move(abs_gamma));
  r.z_0 = spread_of(std::move(z_0));
  r.t_0 = spread_of(std::move(t_0));
  r.variance_slope = spread_of(std::move(relative));
  r.variance_slope_mean = slope.mean();
  r.past = past.mean();
  r.broken = broken.mean();
  r.pi_0 = pi_0.mean();
  r.ap_infinity = ap_infinity.mean();
  for (std::size_t l = 0; l < present.distributions.size(); ++l) {
    r.buckets.push_back(decay_bucket_of(drawn.pairs, decay, l, present.distributions[l].tau, documents));
    r.buckets.back().start = model.buckets.start(present.bucket[l]);
    r.buckets.back().end = model.buckets.end(present.bucket[l]);
  }
  return r;
}

}  // namespace detail

template <context Context, class T>
std::vector<decay_result> decay_of(Context& ctx, const std::vector<query_model>& models,
                                   const layer_view<T, memory_space::host>& layer, const std::string& label,
                                   const decay_options& options) {
  check_shapes(layer);
  check_models("decay_of", models, layer);
  require(options.max_pairs >= 1, "max_pairs must be at least 1, not ", options.max_pairs);
  const auto keys = order_keys_by_document(layer.k_position, layer.k_document, false);
  std::vector<decay_result> results;
  for (std::size_t h = 0; h < models.size(); ++h) {
    const auto present = detail::distributions_of(models[h], layer.window);
    const auto drawn = detail::draw_admitted_pairs(keys, present.distributions, options.max_pairs, options.seed);
    const auto k = layer.k.head(layer.key_of_query[h]);
    std::vector<detail::pair_decay> decay(drawn.pairs.size());
    ctx.for_each(decay.size(), [&](index_t p) {
      decay[p] = detail::decay_of_pair<T>(k, drawn.pairs[p], models[h], present.distributions);
    });
    results.push_back(detail::decay_summary(drawn, decay, models[h], present, keys.groups(), label));
  }
  return results;
}

template <context Context, class T>
std::vector<decay_check> check_decay(Context& ctx, const layer_moments& moments,
                                     const layer_view<T, memory_space::host>& layer, const decay_options& options) {
  check_moments("check_decay", moments, layer);
  auto models = fit_queries(ctx, moments, {.covariance = covariance_kind::full, .position = options.position});
  auto full = decay_of(ctx, models, layer, "full", options);
  auto pooled = decay_of(ctx, with_pooled_covariance(ctx, moments, std::move(models)), layer, "pooled", options);
  std::vector<decay_check> results;
  for (std::size_t h = 0; h < full.size(); ++h) results.push_back({std::move(full[h]), std::move(pooled[h])});
  return results;
}

}  // namespace qkgeom
