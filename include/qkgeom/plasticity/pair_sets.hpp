// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <type_traits>

#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// A function of a `key_pair` of one document that returns its weight, at least 0, or whether it belongs to the set.
template <class F>
concept pair_functor = std::is_invocable_r_v<double, const F&, const key_pair&>;

/// A pair set with options. `weight()` is the weight of a pair (empty: 1); `across_documents` admits pairs of different
/// documents; `documents_weigh_same` weighs documents, not pairs, equally. `sample()`, if it exists, draws pairs.
template <class P>
concept described_pair_set = requires(const P& p) {
  { p.weight() } -> std::convertible_to<pair_weight>;
  { p.across_documents } -> std::convertible_to<bool>;
  { p.documents_weigh_same } -> std::convertible_to<bool>;
};

/// A set of pairs for a mean.
template <class P>
concept pair_set = described_pair_set<P> || pair_functor<P>;

/// All pairs of admissible keys, by default of one document (Definition 4.1).
struct all_pairs {
  bool across_documents = false;
  bool documents_weigh_same = false;
  pair_weight weight() const { return {}; }
};

/// Pairs weighted by the caller, e.g. `weighted_pairs{[](const key_pair& p) { return p.distance() < 1000; }}`.
struct weighted_pairs {
  pair_weight weight_of;
  bool across_documents = false;
  bool documents_weigh_same = false;
  pair_weight weight() const {
    require(static_cast<bool>(weight_of), "weighted_pairs: give the weight of a pair, e.g. a lambda over key_pair");
    return weight_of;
  }
};

/// Pairs weighted by a function that a device can evaluate: F is trivially copyable and its call operator is QKGEOM_HD.
/// Results equal the results of `weighted_pairs` with the same function.
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

/// n >= 2 pairs per query bucket, drawn uniformly from its admissible pairs with replacement; a bucket with at most n
/// pairs takes each once. The mean estimates the mean over all pairs with the error `sampling_error`; `standard_error`
/// is the error over documents. Draws do not depend on the backend or the number of threads.
struct sampled {
  index_t n = 1024;
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;  ///< the draws depend on it
  bool across_documents = false;
  static constexpr bool documents_weigh_same = false;
  pair_weight weight() const { return {}; }
  pair_sample sample() const {
    require(n >= 2, "sampled: n must be at least 2 pairs a query bucket, not ", n);
    return {n, seed, layer};
  }
};

/// The exact expectation of Definition 4.3: `prefix_weight` on all pairs. The weights of a document sum to 1.
struct prefix_uniform {
  bool across_documents = false;
  bool documents_weigh_same = true;
  pair_weight weight() const { return prefix_weight{}; }
  prefix_weight functor() const { return {}; }
};

}  // namespace qkgeom
