// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/core/cache_types.hpp"

namespace qkgeom::examples {

/// A cache type for each key head.
struct bit_table {
  std::vector<cache_type> type;  ///< (heads)
  double bits = 0;               ///< mean per key value
  double cost = 0;               ///< summed over heads
};

/// The table of least cost among those of at most `budget` bits per key value on average, of equal ones one of fewest
/// bits: exact, by dynamic programming over half bits, of which every type takes a whole number. `cost` is (heads,
/// types). Costs O(heads^2 budget types). Throws `error` if the budget is below the smallest type, a cost is not a
/// number, or the shapes do not fit.
bit_table cheapest_table(const std::vector<cache_type>& types, const std::vector<std::vector<double>>& cost,
                         double budget);

}  // namespace qkgeom::examples
