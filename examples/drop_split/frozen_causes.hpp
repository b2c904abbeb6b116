// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "qkgeom/context/admissible.hpp"
#include "qkgeom/context/context.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/householder.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/rotary/turn.hpp"

namespace qkgeom::detail {

/// A head's query distribution averaged over the buckets of a region that have a value, weighted by their queries.
struct frozen_query {
  double weight = 0;                   ///< queries; 0: no bucket of the region has a value
  std::vector<bool> in_region;         ///< (buckets)
  std::vector<double> mean, variance;  ///< (d), Householder coordinates
  std::vector<double> covariance;      ///< (d, d) where the model has a factor
  semidefinite_root root;
};

inline void add_product(std::vector<double>& to, const semidefinite_root& root, std::size_t d, double factor) {
  const std::size_t r = root.rank;
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t j = 0; j < d; ++j) {
      double s = 0;
      for (std::size_t c = 0; c < r; ++c) s += root.factor[i * r + c] * root.factor[j * r + c];
      to[i * d + j] += factor * s;
    }
}

inline frozen_query frozen_over(const query_model& model, const plasticity_profile_result& profile, double end) {
  frozen_query f;
  f.in_region.resize(model.bucket.size());
  for (std::size_t b = 0; b < model.bucket.size(); ++b) {
    if (std::isnan(profile.buckets[b].plasticity) || profile.buckets[b].middle() >= end) continue;
    f.in_region[b] = true;
    const auto& bucket = model.bucket[b];
    const auto w = static_cast<double>(bucket.queries);
    const auto d = bucket.mean.size();
    if (f.weight == 0) {
      f.mean.resize(d);
      f.variance.resize(d);
    }
    f.weight += w;
    f.mean = dense::sum(std::move(f.mean), bucket.mean, w);
    f.variance = dense::sum(std::move(f.variance), bucket.variance, w);
    if (bucket.root.rank > 0) {
      f.covariance.resize(d * d);
      add_product(f.covariance, bucket.root, d, w);
    }
  }
  if (f.weight == 0) return f;
  for (auto* x : {&f.mean, &f.variance, &f.covariance}) *x = dense::scaled(std::move(*x), 1 / f.weight);
  return f;
}

template <context Context>
void factor_covariances(Context& ctx, std::vector<frozen_query>& heads) {
  std::vector<const std::vector<double>*> matrices;
  std::vector<frozen_query*> of;
  for (auto& f : heads)
    if (!f.covariance.empty()) {
      matrices.push_back(&f.covariance);
      of.push_back(&f);
    }
  if (of.empty()) return;
  auto roots = ctx.cholesky(matrices, static_cast<index_t>(of[0]->mean.size()));
  for (std::size_t i = 0; i < of.size(); ++i) of[i]->root = std::move(roots[i]);
}

/// Puts the frozen values into every bucket: bit 0 of `set` the first coordinate's mean, bit 1 the other means, bit 2
/// the covariance.
inline void freeze(query_model& model, const frozen_query& f, unsigned set) {
  if (f.weight == 0) return;
  for (auto& b : model.bucket) {
    if (b.queries < 2) continue;
    if (set & 1u) b.mean[0] = f.mean[0];
    if (set & 2u) std::copy(f.mean.begin() + 1, f.mean.end(), b.mean.begin() + 1);
    if (set & 4u) {
      b.variance = f.variance;
      if (!f.covariance.empty()) b.root = f.root;
    }
  }
}

/// Numbers of admissible pairs by distance cell of each bucket of a layer, (buckets)(cells).
template <context Context, class T>
std::vector<std::vector<double>> distance_histograms(Context& ctx, const query_model& model, const layer_view<T>& layer,
                                                     index_t cell, index_t cells) {
  const auto groups = order_keys_by_document(layer.k_position, layer.k_document, false);
  std::vector<std::vector<double>> count(model.bucket.size(), std::vector<double>(cells));
  ctx.for_each(static_cast<index_t>(count.size()), [&](index_t b) {
    const auto distribution = scores_of(model, b, layer.window);
    if (distribution.empty()) return;
    auto& mine = count[b];
    for (const auto& range : ranges_of(groups, distribution)) {
      const auto first = groups.position.begin() + range.first, last = first + range.count;
      for (auto j = first; j < last; ++j)
        for (auto i = first; i < j; ++i) mine[(*j - *i) / cell] += 1;
    }
  });
  return count;
}

/// Weights of pairs by bucket, which is found by the pair's tau, and distance.
struct weights_by_distance {
  index_t cell = 1;
  std::vector<std::pair<double, std::vector<double>>> by_tau;  ///< ascending

  double operator()(const key_pair& p) const {
    const auto at = std::lower_bound(by_tau.begin(), by_tau.end(), p.tau,
                                     [](const auto& entry, double tau) { return entry.first < tau; });
    return at->second[p.distance() / cell];
  }
};

/// Weights that give the pairs of every bucket the mean histogram of distances of the region's buckets.
template <context Context, class T>
weights_by_distance distance_weights(Context& ctx, const std::vector<query_model>& models,
                                     const std::vector<frozen_query>& frozen, const layer_view<T>& layer,
                                     index_t cell) {
  weights_by_distance weights{cell, {}};
  if (models.empty()) return weights;
  const auto& model = models[0];  // the heads of a layer share positions and buckets
  index_t cells = 1;
  for (index_t r = 0; r < layer.k.rows; ++r) cells = std::max<index_t>(cells, layer.k_position[r] / cell + 1);
  const auto count = distance_histograms(ctx, model, layer, cell, cells);
  std::vector<double> region(cells);
  const auto total = [](const std::vector<double>& x) { return std::accumulate(x.begin(), x.end(), 0.0); };
  for (std::size_t b = 0; b < count.size(); ++b)
    if (frozen[0].in_region[b])
      region = dense::sum(std::move(region), count[b], static_cast<double>(model.bucket[b].queries) / total(count[b]));
  for (std::size_t b = 0; b < count.size(); ++b) {
    if (model.bucket[b].queries < 2) continue;
    auto w = region;
    for (std::size_t c = 0; c < w.size(); ++c) w[c] = count[b][c] > 0 ? w[c] / count[b][c] : 0;
    weights.by_tau.emplace_back(model.bucket[b].tau, std::move(w));
  }
  std::sort(weights.by_tau.begin(), weights.by_tau.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return weights;
}

/// A layer whose keys are turned back to position 0; it has no queries.
template <class T>
class turned_back_keys {
 public:
  using value = compute_t<T>;
  turned_back_keys(const layer_view<T>& layer, const captured_rope& rope)
      : of_(layer), k_(layer.k.rows * layer.k.heads * layer.k.dim) {
    std::vector<double> x(layer.k.dim);
    for (index_t r = 0; r < layer.k.rows; ++r) {
      const rotary_turn turn(rope, -static_cast<double>(layer.k_position[r]));
      for (index_t h = 0; h < layer.k.heads; ++h) {
        for (index_t c = 0; c < layer.k.dim; ++c) x[c] = static_cast<double>(layer.k.head(h)(r, c));
        turn(x.data());
        std::transform(x.begin(), x.end(), k_.begin() + (r * layer.k.heads + h) * layer.k.dim,
                       [](double v) { return static_cast<value>(v); });
      }
    }
  }
  layer_view<value> layer() const {
    return {packed_tensor(k_.data(), 0, of_.q.heads, of_.q.dim),
            {},
            {},
            packed_tensor(k_.data(), of_.k.rows, of_.k.heads, of_.k.dim),
            of_.k_position,
            of_.k_document,
            of_.key_of_query,
            of_.window};
  }

 private:
  layer_view<T> of_;
  std::vector<value> k_;
};

/// The query model against keys that all stand at their bucket's start, for keys turned back to position 0:
/// q'R(t)k = (R(-t)q)'k.
inline query_model at_bucket_start(const query_model& model, const captured_rope& rope) {
  query_model turned = model;
  turned.covariance = covariance_kind::joint;
  turned.reflector.clear();
  for (std::size_t b = 0; b < model.bucket.size(); ++b) {
    auto& to = turned.bucket[b];
    if (to.queries < 2) continue;
    const auto d = to.mean.size();
    const rotary_turn turn(rope, -static_cast<double>(model.buckets.start(static_cast<index_t>(b))));
    auto distribution = scores_of(model, static_cast<index_t>(b), std::nullopt);
    if (!distribution.variance.empty()) {  // a factor of H diag(variance) H
      distribution.rank = static_cast<index_t>(d);
      distribution.factor.assign(d * d, 0.0);
      for (std::size_t c = 0; c < d; ++c) {
        std::vector<double> column(d);
        column[c] = std::sqrt(distribution.variance[c]);
        column = reflect(model.reflector, std::move(column));
        for (std::size_t i = 0; i < d; ++i) distribution.factor[i * d + c] = column[i];
      }
    }
    turn(distribution.mean.data());
    to.mean = distribution.mean;
    to.root.rank = distribution.rank;
    to.root.factor.resize(distribution.factor.size());
    const std::size_t r = distribution.rank;
    std::vector<double> column(d);
    for (std::size_t c = 0; c < r; ++c) {
      for (std::size_t i = 0; i < d; ++i) column[i] = distribution.factor[i * r + c];
      turn(column.data());
      for (std::size_t i = 0; i < d; ++i) to.root.factor[i * r + c] = column[i];
    }
    to.variance.clear();
  }
  return turned;
}

}  // namespace qkgeom::detail
