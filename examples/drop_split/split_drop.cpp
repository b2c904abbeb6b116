// SPDX-License-Identifier: MIT
#include "examples/drop_split/split_drop.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "qkgeom/context/context.hpp"
#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/householder.hpp"
#include "qkgeom/plasticity/summary.hpp"
#include "qkgeom/rotary/rotation_between.hpp"
#include "qkgeom/stats/shapley.hpp"

namespace qkgeom::examples {

// Not a nameless one: what split_drop<T> holds has linkage.
namespace detail {

/// A head's query distribution averaged over the buckets of a region that have a value, weighted by their queries.
struct frozen_query {
  double weight = 0;                   ///< queries; 0: no bucket of the region has a value
  std::vector<bool> in_region;         ///< (buckets)
  std::vector<double> mean, variance;  ///< (d), Householder coordinates
  std::vector<double> covariance;      ///< (d, d) where the model has a factor
  semidefinite_root root;
};

void add_product(std::vector<double>& to, const semidefinite_root& root, std::size_t d, double factor) {
  const std::size_t r = root.rank;
  for (std::size_t i = 0; i < d; ++i)
    for (std::size_t j = 0; j < d; ++j) {
      double s = 0;
      for (std::size_t c = 0; c < r; ++c) s += root.factor[i * r + c] * root.factor[j * r + c];
      to[i * d + j] += factor * s;
    }
}

frozen_query frozen_over(const query_model& model, const plasticity_profile_result& profile, double end) {
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

void factor_covariances(cpu_context& cpu, std::vector<frozen_query>& heads) {
  std::vector<const std::vector<double>*> matrices;
  std::vector<frozen_query*> of;
  for (auto& f : heads)
    if (!f.covariance.empty()) {
      matrices.push_back(&f.covariance);
      of.push_back(&f);
    }
  if (of.empty()) return;
  auto roots = cpu.cholesky(matrices, static_cast<index_t>(of[0]->mean.size()));
  for (std::size_t i = 0; i < of.size(); ++i) of[i]->root = std::move(roots[i]);
}

/// Puts the frozen values into every bucket: bit 0 of `set` the first coordinate's mean, bit 1 the other means, bit 2
/// the covariance.
void freeze(query_model& model, const frozen_query& f, unsigned set) {
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
template <class T>
std::vector<std::vector<double>> distance_histograms(cpu_context& cpu, const query_model& model,
                                                     const layer_view<T>& layer, index_t cell, index_t cells) {
  const auto groups = order_keys_by_document(layer.k_position, layer.k_document, false);
  std::vector<std::vector<double>> count(model.bucket.size(), std::vector<double>(cells));
  cpu.for_each(static_cast<index_t>(count.size()), [&](index_t b) {
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
template <class T>
weights_by_distance distance_weights(cpu_context& cpu, const std::vector<query_model>& models,
                                     const std::vector<frozen_query>& frozen, const layer_view<T>& layer,
                                     index_t cell) {
  weights_by_distance weights{cell, {}};
  if (models.empty()) return weights;
  const auto& model = models[0];  // the heads of a layer share positions and buckets
  index_t cells = 1;
  for (index_t r = 0; r < layer.k.rows; ++r) cells = std::max<index_t>(cells, layer.k_position[r] / cell + 1);
  const auto count = distance_histograms(cpu, model, layer, cell, cells);
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
class keys_rotated_back {
 public:
  using value = compute_t<T>;
  keys_rotated_back(const layer_view<T>& layer, const captured_rope& rope)
      : of_(layer), k_(layer.k.rows * layer.k.heads * layer.k.dim) {
    std::vector<double> x(layer.k.dim);
    for (index_t r = 0; r < layer.k.rows; ++r) {
      const vector_rotation rotation(rope, -static_cast<double>(layer.k_position[r]));
      for (index_t h = 0; h < layer.k.heads; ++h) {
        for (index_t c = 0; c < layer.k.dim; ++c) x[c] = static_cast<double>(layer.k.head(h)(r, c));
        rotation(x.data());
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
query_model at_bucket_start(const query_model& model, const captured_rope& rope) {
  query_model rotated = model;
  rotated.covariance = covariance_kind::joint;
  rotated.reflector.clear();
  for (std::size_t b = 0; b < model.bucket.size(); ++b) {
    auto& to = rotated.bucket[b];
    if (to.queries < 2) continue;
    const auto d = to.mean.size();
    const vector_rotation rotation(rope, -static_cast<double>(model.buckets.start(static_cast<index_t>(b))));
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
    rotation(distribution.mean.data());
    to.mean = distribution.mean;
    to.root.rank = distribution.rank;
    to.root.factor.resize(distribution.factor.size());
    const std::size_t r = distribution.rank;
    std::vector<double> column(d);
    for (std::size_t c = 0; c < r; ++c) {
      for (std::size_t i = 0; i < d; ++i) column[i] = distribution.factor[i * r + c];
      rotation(column.data());
      for (std::size_t i = 0; i < d; ++i) to.root.factor[i * r + c] = column[i];
    }
    to.variance.clear();
  }
  return rotated;
}

/// Shapley values over the four causes from the drops with each set of them frozen, as (drop, causes, rest).
std::array<double, drop_causes + 2> shapley_split(const std::array<double, 1 << drop_causes>& drop_with) {
  const std::vector<double> with_moving(drop_with.rbegin(), drop_with.rend());  // what is not frozen moves
  const auto causes = shapley_values(with_moving);
  std::array<double, drop_causes + 2> x{drop_with.front()};
  std::copy(causes.begin(), causes.end(), x.begin() + 1);
  x.back() = drop_with.back();
  return x;
}

/// The split of one head from its sixteen profiles, by set of frozen causes.
drop_split split_of(const std::vector<plasticity_profile_result>& profiles, index_t context_length) {
  std::vector<profile_means> means;
  for (const auto& p : profiles) means.emplace_back(p);
  const auto values = [&](index_t left_out) {
    std::array<double, 1 << drop_causes> drops{};
    for (std::size_t s = 0; s < profiles.size(); ++s) drops[s] = means[s].summary(context_length, left_out)[3];
    return drops;
  };
  drop_split r;
  r.drop_with = values(-1);
  const auto whole = shapley_split(r.drop_with);
  for (std::size_t e = 0; e < profiles[0].documents.size(); ++e)
    if (means[0].has_pairs(e, summary_ranges(context_length)[3])) {
      r.documents.push_back(profiles[0].documents[e]);
      r.without.push_back(shapley_split(values(static_cast<index_t>(e))));
    }
  const auto set = [&](estimate& to, std::size_t i) {
    std::vector<double> without;
    for (const auto& x : r.without) without.push_back(x[i]);
    to = std::isnan(whole[i]) ? estimate{} : jackknife(whole[i], without);
  };
  set(r.drop, 0);
  for (std::size_t p = 0; p < drop_causes; ++p) set(r.cause[p], 1 + p);
  set(r.rest, drop_causes + 1);
  return r;
}

}  // namespace detail

template <class T>
std::vector<drop_split> split_drop(cpu_context& cpu, const std::vector<query_model>& models, const layer_view<T>& layer,
                                   index_t context_length, const drop_split_options& options) {
  require(!options.rotation || 2 * static_cast<index_t>(options.rotation->inv_freq.size()) <= layer.k.dim,
          "split_drop: rotation.inv_freq rotates more coordinates than keys have, ", layer.k.dim);
  const profile_options pairs{.precision = options.precision};
  std::vector<std::vector<plasticity_profile_result>> profiles(models.size());  // by set of frozen causes
  const auto add = [&](std::vector<plasticity_profile_result>&& found) {
    for (std::size_t h = 0; h < found.size(); ++h) profiles[h].push_back(std::move(found[h]));
  };
  prepared_layer as_captured(cpu, layer);
  add(plasticity_profile(cpu, models, as_captured, all_pairs{}, pairs));
  std::vector<detail::frozen_query> frozen;
  for (std::size_t h = 0; h < models.size(); ++h)
    frozen.push_back(detail::frozen_over(models[h], profiles[h][0], 0.2 * static_cast<double>(context_length)));
  detail::factor_covariances(cpu, frozen);
  const auto with = [&](unsigned set) {
    auto changed = models;
    for (std::size_t h = 0; h < models.size(); ++h) detail::freeze(changed[h], frozen[h], set);
    return changed;
  };
  constexpr unsigned of_query = 1u << static_cast<unsigned>(drop_cause::keys);
  for (unsigned set = 1; set < of_query; ++set)
    add(plasticity_profile(cpu, with(set), as_captured, all_pairs{}, pairs));
  if (options.rotation) {
    const detail::keys_rotated_back<T> rotated_back(layer, *options.rotation);
    prepared_layer keys(cpu, rotated_back.layer());
    for (unsigned set = 0; set < of_query; ++set) {
      auto changed = with(set);
      for (auto& m : changed) m = detail::at_bucket_start(m, *options.rotation);
      add(plasticity_profile(cpu, changed, keys, all_pairs{}, pairs));
    }
  } else {
    const index_t cell = options.distance_cell > 0 ? options.distance_cell : std::max<index_t>(1, context_length / 128);
    const auto weight = detail::distance_weights(cpu, models, frozen, layer, cell);
    for (unsigned set = 0; set < of_query; ++set) add(plasticity_profile(cpu, with(set), as_captured, weight, pairs));
  }
  std::vector<drop_split> splits;
  for (const auto& p : profiles) splits.push_back(detail::split_of(p, context_length));
  return splits;
}

#define QKGEOM_SPLIT_DROP(T)                                                                                       \
  template std::vector<drop_split> split_drop(cpu_context&, const std::vector<query_model>&, const layer_view<T>&, \
                                              index_t, const drop_split_options&);
QKGEOM_SPLIT_DROP(double)
QKGEOM_SPLIT_DROP(float)
QKGEOM_SPLIT_DROP(bf16)
QKGEOM_SPLIT_DROP(f16)
#undef QKGEOM_SPLIT_DROP

estimate mean_over_heads(const std::vector<const drop_split*>& heads, index_t part) {
  std::map<std::int32_t, double> shift;  // by document: sum over heads of (without it - with it)
  double sum = 0, n = 0;
  for (const auto* s : heads) {
    if (std::isnan(s->drop.value)) continue;
    const double whole = s->part(part).value;
    sum += whole;
    ++n;
    for (std::size_t e = 0; e < s->documents.size(); ++e) shift[s->documents[e]] += s->without[e][part] - whole;
  }
  if (!(n > 0)) return {};
  std::vector<double> without;
  for (const auto& [document, by] : shift) without.push_back((sum + by) / n);
  return jackknife(sum / n, without);
}

}  // namespace qkgeom::examples
