// SPDX-License-Identifier: MIT
#include "examples/common/numbers/misses.hpp"

#include <algorithm>
#include <cstddef>

#include "qkgeom/core/error.hpp"

namespace qkgeom::examples {

std::vector<estimate> widened(std::vector<estimate> predicted, const head_misses& check, double factor) {
  require(predicted.size() == check.rope.size(), "widened: the check is about ", check.rope.size(), " heads, not ",
          predicted.size());
  mean_square of_kind[2];
  std::vector<mean_square> own(predicted.size());
  for (std::size_t h = 0; h < predicted.size(); ++h)
    for (std::size_t f = 0; f < check.factors.size(); ++f) {
      const double grown = growth_of_error(check.factors[f]);
      for (auto* s : {&own[h], &of_kind[check.rope[h]]})
        s->add(check.miss[f][h].value / grown, check.miss[f][h].error / grown);
    }
  const double growth = growth_of_error(factor);
  for (std::size_t h = 0; h < predicted.size(); ++h) {
    const auto& kind = of_kind[check.rope[h]];
    const double error = predicted[h].error;
    predicted[h] = {predicted[h].value};
    if (!(kind.count > 0)) continue;
    const double rate = std::max(0.0, (shared_misses * kind.value() + own[h].sum) / (shared_misses + own[h].count));
    predicted[h].error = std::sqrt(growth * growth * rate + (std::isnan(error) ? 0 : error * error));
    predicted[h].freedom = kind.count;
  }
  return predicted;
}

}  // namespace qkgeom::examples
