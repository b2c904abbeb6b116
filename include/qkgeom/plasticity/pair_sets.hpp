// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// A caller's own set of pairs, or their weights: a function of a `key_pair` that gives a weight of 0 or more, or
/// whether the pair belongs to the set. Pairs are those of one document, and each counts by its weight.
template <class F>
concept pair_functor = std::is_invocable_r_v<double, const F&, const key_pair&>;

/// A pair set with its say in groups and documents: `weight()` gives the weight of a pair (empty: every pair counts 1);
/// groups of keys are documents, or one group of all if `across_documents`; if `documents_weigh_same` every document
/// counts once, else every pair. One that has `sample()` draws pairs instead of taking all.
template <class P>
concept described_pair_set = requires(const P& p) {
  { p.weight() } -> std::convertible_to<pair_weight>;
  { p.across_documents } -> std::convertible_to<bool>;
  { p.documents_weigh_same } -> std::convertible_to<bool>;
};

/// What a mean over pairs may run over.
template <class P>
concept pair_set = described_pair_set<P> || pair_functor<P>;

/// Every pair of admissible keys, exactly. The default: pairs of one document (Definition 4.1 fixes the prefix).
struct all_pairs {
  bool across_documents = false;
  bool documents_weigh_same = false;
  pair_weight weight() const { return {}; }
};

/// Pairs by a weight of the caller's, e.g. `weighted_pairs{[](const key_pair& p) { return p.distance() < 1000; }}`.
struct weighted_pairs {
  pair_weight weight_of;
  bool across_documents = false;
  bool documents_weigh_same = false;
  pair_weight weight() const {
    require(static_cast<bool>(weight_of), "weighted_pairs: give the weight of a pair, e.g. a lambda over key_pair");
    return weight_of;
  }
};

/// Pairs by a weight that a device can evaluate: F is a function object that can be copied as bytes and whose call
/// operator is QKGEOM_HD. `device_weighted_pairs{near{}}` on any context gives what `weighted_pairs{near{}}` gives.
template <class F>
struct device_weighted_pairs {
  F weight_of;
  bool across_documents = false;
  bool documents_weigh_same = false;
  pair_weight weight() const { return weight_of; }
  const F& functor() const { return weight_of; }
};
template <class F, class... Rest>
device_weighted_pairs(F, Rest...) -> device_weighted_pairs<F>;

/// n pairs a query bucket, drawn from its admissible pairs with replacement, so that a document's share of them is that
/// of its pairs; a bucket with at most n pairs takes each once. Every pair counting once, the mean estimates that over
/// all pairs: `sampling_error` is its distance from that, `standard_error` from the mean over all documents. Draws are
/// the same for any thread count and backend. n is at least 2.
struct sampled {
  index_t n = 1024;
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;  ///< layers of other numbers draw other pairs
  bool across_documents = false;
  static constexpr bool documents_weigh_same = false;
  pair_weight weight() const { return {}; }
  pair_sample sample() const {
    require(n >= 2, "sampled: n must be at least 2 pairs a query bucket, not ", n);
    return {n, seed, layer};
  }
};

/// The exact expectation of Definition 4.3: N uniform on {2..m}, the pair uniform among the first N keys, so that a
/// pair whose later key is the n-th weighs 2 / (m - 1) (1 / (n - 1) - 1 / m); the weights of a document sum to 1.
struct prefix_uniform {
  bool across_documents = false;
  bool documents_weigh_same = true;
  pair_weight weight() const { return prefix_weight{}; }
  prefix_weight functor() const { return {}; }
};

namespace detail {

template <described_pair_set P>
const P& described(const P& pairs) {
  return pairs;
}
template <pair_functor F>
weighted_pairs described(const F& weight) {
  return {[weight](const key_pair& p) { return static_cast<double>(weight(p)); }};
}

template <described_pair_set P>
pair_request request_of(const P& pairs, std::optional<pair_precision> precision) {
  pair_request request{pairs.weight(), precision};
  if constexpr (requires { pairs.sample(); }) request.sample = pairs.sample();
  return request;
}

}  // namespace detail

}  // namespace qkgeom
