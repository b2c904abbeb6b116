// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>

#include "qkgeom/core/pair_problem.hpp"

namespace qkgeom {

/// A pair set says which pairs count and how much: `weight()` gives the weight of ranks i < j among m admissible keys
/// (empty: every pair counts 1); groups of keys are examples, or one group of all if `across_examples`; if
/// `examples_weigh_same` every example counts once, else every pair.
template <class P>
concept pair_set = requires(const P& p) {
  { p.weight() } -> std::convertible_to<pair_weight>;
  { p.across_examples } -> std::convertible_to<bool>;
  { p.examples_weigh_same } -> std::convertible_to<bool>;
};

/// Every pair of admissible keys, exactly. The default: pairs of one example (Definition 4.1 fixes the prefix).
struct all_pairs {
  bool across_examples = false;
  bool examples_weigh_same = false;
  pair_weight weight() const { return {}; }
};

/// The exact expectation of Definition 4.3: N uniform on {2..m}, the pair uniform among the first N keys, so that a
/// pair whose later key is the n-th weighs 2 / (m - 1) (1 / (n - 1) - 1 / m); the weights of an example sum to 1.
struct prefix_uniform {
  bool across_examples = false;
  bool examples_weigh_same = true;
  pair_weight weight() const {
    return [](index_t, index_t j, index_t m) {
      const double keys = static_cast<double>(m), n = static_cast<double>(j + 1);
      return 2.0 / (keys - 1.0) * (1.0 / (n - 1.0) - 1.0 / keys);
    };
  }
};

}  // namespace qkgeom
