// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/model/query_model.hpp"
#include "qkgeom/plasticity/decay.hpp"
#include "qkgeom/plasticity/detail/decay_pairs.hpp"
#include "qkgeom/plasticity/keys_by_document.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/stats/jackknife.hpp"
#include "qkgeom/stats/quantile.hpp"

namespace qkgeom {

namespace detail {

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
