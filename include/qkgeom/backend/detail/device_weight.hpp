// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/context/pair_problem.hpp"

/// Weights of pairs that a device can evaluate.
namespace qkgeom::backend {

/// Every pair counts 1.
struct no_weight {
  static constexpr bool given = false, of_later_key = false;
  QKGEOM_HD double operator()(const key_pair&) const { return 1.0; }
};

/// A weight that runs where the pairs do. One that depends on the later key's rank and the number of keys alone may say
/// so by a member `of_later_key`, and is then evaluated once a key.
template <class F>
struct given_weight {
  static constexpr bool given = true, of_later_key = requires { F::of_later_key; };
  F weight;
  QKGEOM_HD double operator()(const key_pair& p) const { return static_cast<double>(weight(p)); }
};

/// Whether `w` is a weight that a pair may have.
QKGEOM_HD inline bool is_weight(double w) { return w >= 0 && w - w == 0; }

}  // namespace qkgeom::backend
