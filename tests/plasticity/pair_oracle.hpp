// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "qkgeom/adapt/eigen.hpp"
#include "qkgeom/model/householder.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "tests/common/on_cpu.hpp"

namespace qkgeom::test {

/// One pair by the definition: the argument of its weight, its plasticity and its terms in the order of `pair_term`.
struct oracle_pair {
  index_t bucket = 0;
  std::int32_t group = 0;  ///< document id; 0 across documents
  key_pair keys;
  std::array<double, 1 + pair_terms> value{};
};

/// The covariance of query bucket b in full: (d, d).
inline std::vector<double> covariance_of(const query_bucket& bucket, std::size_t d) {
  std::vector<double> covariance(d * d);
  if (bucket.root.factor.empty()) {
    for (std::size_t c = 0; c < d && bucket.root.rank == 0 && !bucket.variance.empty(); ++c)
      covariance[c * d + c] = bucket.variance[c];
  } else {
    const auto root = as_eigen(bucket.root.factor, bucket.root.rank);
    Eigen::Map<Eigen::MatrixXd>(covariance.data(), root.rows(), root.rows()) = root * root.transpose();
  }
  return covariance;
}

/// Terms of delta = H(k_i - k_j) under query bucket b.
inline std::array<double, 1 + pair_terms> terms_of(const query_bucket& bucket, const std::vector<double>& covariance,
                                                   const std::vector<double>& delta, bool same_position) {
  const auto d = delta.size();
  double content = 0, along = delta[0] * delta[0] * covariance[0], rest = 0, cross = 0;
  for (std::size_t a = 1; a < d; ++a) {
    content += delta[a] * bucket.mean[a];
    cross += 2 * delta[0] * delta[a] * covariance[a];
    for (std::size_t b = 1; b < a; ++b) rest += 2 * delta[a] * delta[b] * covariance[a * d + b];
    rest += delta[a] * delta[a] * covariance[a * d + a];
  }
  const double drift = delta[0] * bucket.mean[0], z = (drift + content) / std::sqrt(along + rest + cross);
  const double later = same_position ? 0.5 : 0.5 * std::erfc(z / std::sqrt(2.0));
  const double first = 0.5 * std::erfc(-z / std::sqrt(2.0)), second = 0.5 * std::erfc(z / std::sqrt(2.0));
  return {4 * first * second, later, std::fabs(drift), std::fabs(content), along, rest, cross, std::fabs(z)};
}

/// Calls each(pair) for every admissible pair of every query bucket with a model. With `key_edges` both keys of a pair
/// lie in one key bucket, and ranks count that bucket's keys.
template <class Each>
void for_each_pair(const query_model& model, const head_view<double>& head, bool across, const bucket_edges& key_edges,
                   const Each& each) {
  const auto d = static_cast<std::size_t>(head.k.cols);
  for (index_t b = 0; b < model.buckets.count(); ++b) {
    const auto& bucket = model.bucket[b];
    if (bucket.queries < 2) continue;
    const auto covariance = covariance_of(bucket, d);
    std::map<std::pair<std::int32_t, index_t>, std::vector<index_t>> groups;
    for (index_t i = 0; i < head.k.rows; ++i) {
      if (head.k_position[i] >= model.buckets.start(b)) continue;
      if (head.window && !(head.k_position[i] > bucket.tau - static_cast<double>(*head.window))) continue;
      const index_t term = key_edges.count() > 0 ? key_edges(head.k_position[i]) : 0;
      if (term >= 0) groups[{across ? 0 : head.k_document[i], term}].push_back(i);
    }
    for (auto& [id, g] : groups) {
      std::stable_sort(g.begin(), g.end(),
                       [&](index_t x, index_t y) { return head.k_position[x] < head.k_position[y]; });
      for (std::size_t j = 1; j < g.size(); ++j)
        for (std::size_t i = 0; i < j; ++i) {
          std::vector<double> delta(d);
          for (std::size_t c = 0; c < d; ++c)
            delta[c] = head.k(g[i], static_cast<index_t>(c)) - head.k(g[j], static_cast<index_t>(c));
          const std::int32_t ti = head.k_position[g[i]], tj = head.k_position[g[j]];
          each(oracle_pair{b,
                           id.first,
                           {static_cast<index_t>(i), static_cast<index_t>(j), static_cast<index_t>(g.size()), ti, tj,
                            head.k_document[g[i]], head.k_document[g[j]], bucket.tau},
                           terms_of(bucket, covariance, reflect(model.reflector, delta), ti == tj)});
        }
    }
  }
}

/// Weighted sums by document: the mean and its delete-one jackknife follow by their definitions.
struct oracle_mean {
  std::map<std::int32_t, std::pair<double, double>> by_document;
  std::int64_t pairs = 0;

  void add(std::int32_t document, double value, double weight) {
    if (weight == 0) return;
    by_document[document].first += weight * value;
    by_document[document].second += weight;
    ++pairs;
  }
  double mean(std::int32_t left_out = -2) const {
    double sum = 0, weight = 0;
    for (const auto& [e, x] : by_document)
      if (e != left_out) {
        sum += x.first;
        weight += x.second;
      }
    return sum / weight;
  }
  double jackknife() const {
    std::vector<double> without;
    for (const auto& [e, x] : by_document) without.push_back(mean(e));
    return jackknife_error(without);
  }
  double infinitesimal_jackknife() const {
    const auto n = static_cast<double>(by_document.size());
    double weight = 0, square = 0;
    for (const auto& [e, x] : by_document) weight += x.second;
    for (const auto& [e, x] : by_document) square += std::pow((x.first - mean() * x.second) / weight, 2);
    return std::sqrt(n / (n - 1) * square);
  }
};

/// A planted head whose queries have a mean and a drift, and its query model.
struct planted_case {
  planted_rows<double> rows;
  planted_case(index_t dim, index_t documents, index_t keys) {
    planted_head spec{.dim = dim, .context_length = 1000, .documents = documents, .rows = keys, .seed = 21};
    spec.drift_q.assign(dim, 2e-3);
    spec.mean_q.assign(dim, 0.3);
    rows = plant<double>(spec);
  }
  query_model model(covariance_kind kind = covariance_kind::diagonal) const {
    return model_of(rows.view(), 150, 1000, kind);
  }
};

}  // namespace qkgeom::test
