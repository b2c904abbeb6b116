// SPDX-License-Identifier: MIT
#include "examples/quantised_keys/rounding_study.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "qkgeom/core/error.hpp"

namespace qkgeom::examples {

bit_table cheapest_table(const std::vector<cache_type>& types, const std::vector<std::vector<double>>& cost,
                         double budget) {
  require(!types.empty() && !cost.empty(), "a table of bits needs a key head and a type");
  std::vector<std::size_t> halves;
  for (const cache_type t : types) halves.push_back(static_cast<std::size_t>(2 * bits_of(t)));
  const std::size_t least = *std::min_element(halves.begin(), halves.end());
  require(2 * budget >= static_cast<double>(least), "a budget of ", budget, " bits is below the ",
          0.5 * static_cast<double>(least), " of the smallest type");
  const std::size_t heads = cost.size();
  const std::size_t most = heads * *std::max_element(halves.begin(), halves.end());
  const auto all = std::min(most, static_cast<std::size_t>(2 * budget * static_cast<double>(heads) + 1e-9));
  // best[h][c]: cost of the first h heads with c half bits in all; choice: the type of head h - 1 there.
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(heads + 1, std::vector<double>(all + 1, never));
  std::vector<std::vector<std::size_t>> choice(heads, std::vector<std::size_t>(all + 1));
  best[0][0] = 0;
  for (std::size_t h = 0; h < heads; ++h) {
    require(cost[h].size() == types.size(), "key head ", h, " has ", cost[h].size(), " costs for ", types.size(),
            " types");
    for (std::size_t t = 0; t < types.size(); ++t) {
      require(std::isfinite(cost[h][t]), "the cost of ", name_of(types[t]), " for key head ", h, " is no number");
      for (std::size_t c = halves[t]; c <= all; ++c)
        if (const double sum = best[h][c - halves[t]] + cost[h][t]; sum < best[h + 1][c]) {
          best[h + 1][c] = sum;
          choice[h][c] = t;
        }
    }
  }
  const auto& last = best[heads];
  auto at = static_cast<std::size_t>(std::min_element(last.begin(), last.end()) - last.begin());
  bit_table found{std::vector<cache_type>(heads), 0.5 * static_cast<double>(at) / static_cast<double>(heads), last[at]};
  for (std::size_t h = heads; h-- > 0;) {
    const std::size_t t = choice[h][at];
    found.type[h] = types[t];
    at -= halves[t];
  }
  return found;
}

}  // namespace qkgeom::examples
