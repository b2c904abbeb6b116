// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "examples/common/outputs.hpp"
#include "qkgeom/core/cache_types.hpp"
#include "qkgeom/plasticity/rounded_keys.hpp"

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

/// Options of quantised_keys.
struct rounding_arguments {
  std::vector<std::string> types{"q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"};
  std::vector<double> budgets{5, 5.5, 6};  ///< mean bits per key value
  index_t max_queries = 16;                ///< observed queries per bucket
};

/// A key head under each cache type.
struct rounded_head {
  index_t layer = 0, k_head = 0;
  bool rope = true;
  estimate plasticity;                   ///< AP over the context, mean over the captured query heads that read it
  std::vector<rounding_effect> effects;  ///< (types)
};

/// The table of least flipped mass for a budget, and the same types dealt to key heads at random.
struct budget_tables {
  double budget = 0;
  bit_table chosen;
  std::vector<cache_type> shuffled;
};

struct rounding_study {
  analysed whole;
  std::vector<cache_type> types;
  std::vector<rounded_head> heads;  ///< by layer, then key head
  std::vector<budget_tables> budgets;
};

/// Throws `error` if the rows are from before the rotary embedding, if a type does not take the head size, or if a
/// budget is below the smallest type.
rounding_study find_rounding(const arguments& a, const rounding_arguments& choice);

/// Writes notes.csv, rounded_keys.csv, rounded_keys_distance.csv, bit_tables.csv, conditions.json for qkgeom evaluate,
/// and the figure rounded_keys.
void write_rounding(output_folder& out, const rounding_study& found);
void print_rounding(printer& out, const rounding_study& found);

}  // namespace qkgeom::examples
