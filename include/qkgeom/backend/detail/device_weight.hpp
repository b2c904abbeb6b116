// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/context/pair_problem.hpp"

/// Weights of pairs that run on a device.
namespace qkgeom::backend {

/// Every pair counts 1.
struct no_weight {
  static constexpr bool given = false, of_later_key = false;
  QKGEOM_HD double operator()(const key_pair&) const { return 1.0; }
};

/// A weight of the caller's type F that runs where the pairs do. If F reads only j and keys of a pair, a member
/// `F::of_later_key` says so, and the weight is evaluated once per key.
template <class F>
struct given_weight {
  static constexpr bool given = true, of_later_key = requires { F::of_later_key; };
  F weight;
  QKGEOM_HD double operator()(const key_pair& p) const { return static_cast<double>(weight(p)); }
};

/// Whether `w` is finite and at least 0.
QKGEOM_HD inline bool is_weight(double w) { return w >= 0 && w - w == 0; }

}  // namespace qkgeom::backend
