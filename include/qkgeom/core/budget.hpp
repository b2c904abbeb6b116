// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// An allowance that is spent in pieces. Readers of untrusted files spend it before they allocate or compute, so that a
/// small file cannot demand memory or time without bound. docs/formats.md lists the amounts.
class budget {
 public:
  /// Allows `amount`; `exceeded` is the message of the error that `spend` throws.
  budget(std::uint64_t amount, std::string exceeded) : left_(amount), exceeded_(std::move(exceeded)) {}

  /// Spends `amount`. Throws `error` if less than that is left.
  void spend(std::uint64_t amount) {
    require(amount <= left_, exceeded_);
    left_ -= amount;
  }

 private:
  std::uint64_t left_;
  std::string exceeded_;
};

/// Most experts of all layers of a model, and most matrices of experts in a checkpoint.
inline constexpr index_t most_experts = 400'000;

/// Multiplies non-negative numbers; returns the largest integer where the product does not fit.
inline index_t saturated_product(std::initializer_list<index_t> factors) {
  index_t product = 1;
  bool fits = true;
  for (const index_t n : factors) {
    if (n == 0) return 0;
    fits = fits && !__builtin_mul_overflow(product, n, &product);
  }
  return fits ? product : std::numeric_limits<index_t>::max();
}

}  // namespace qkgeom
