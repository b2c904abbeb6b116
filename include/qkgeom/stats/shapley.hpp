// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstddef>
#include <vector>

#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// Returns the Shapley values (Shapley 1953) of n causes from a number's value under each set of causes: 2^n values,
/// bit i of an index being cause i. They add up to the value with all causes less the value without any. Throws `error`
/// unless the number of values is a power of two.
inline std::vector<double> shapley_values(const std::vector<double>& value_with) {
  require(std::has_single_bit(value_with.size()), "shapley_values: ", value_with.size(),
          " values are not one for each set of causes");
  const auto n = static_cast<std::size_t>(std::countr_zero(value_with.size()));
  std::vector<double> share(n, n > 0 ? 1.0 / static_cast<double>(n) : 0);  // |S|! (n - |S| - 1)! / n!
  for (std::size_t size = 1; size < n; ++size)
    share[size] = share[size - 1] * static_cast<double>(size) / static_cast<double>(n - size);
  std::vector<double> value(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t set = 0; set < value_with.size(); ++set)
      if (!(set >> i & 1))
        value[i] += share[static_cast<std::size_t>(std::popcount(set))] *
                    (value_with[set | std::size_t{1} << i] - value_with[set]);
  return value;
}

}  // namespace qkgeom
