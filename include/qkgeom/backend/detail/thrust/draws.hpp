// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/backend/detail/pair_cells.hpp"
#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/backend/detail/thrust/device.hpp"

/// What is done with each drawn pair; see drawn.hpp.
namespace qkgeom::thrust_kernels {

/// The pairs that a law takes: `count` numbers of its `all` pairs, drawn, or 0, 1, ... where it takes all.
struct draws_of_law {
  index_t problem, law, admitted;  ///< `admitted`: which of the sets of admissible keys
  std::int64_t all, count;
  bool every;
  double weight;  ///< pairs that each one stands for
};

/// Draw number `slot` of each law: ranks become keys (left, right) of the groups' order; group -1 where a law has
/// fewer.
struct draw_keys {
  const draws_of_law* laws;
  const std::int64_t* before;  ///< (sets, groups + 1) pairs in earlier groups
  const index_t* first;        ///< (sets, groups) first admissible key
  index_t groups, slots;
  pair_sample sample;
  std::int32_t *left, *right, *group;  ///< (laws, slots)

  QKGEOM_HD void operator()(index_t item) const {
    const draws_of_law& law = laws[item / slots];
    const index_t slot = item % slots;
    left[item] = right[item] = 0;
    group[item] = -1;
    if (slot >= law.count) return;
    const random_stream stream{sample.seed, static_cast<std::uint32_t>(law.problem << 16 | law.law), sample.layer,
                               draw::pair};
    const std::int64_t* const from = before + law.admitted * (groups + 1);
    const auto r = law.every ? slot
                             : static_cast<std::int64_t>(
                                   stream.below(static_cast<std::uint64_t>(slot), static_cast<std::uint64_t>(law.all)));
    const index_t g = place_in(from, groups, r);
    const auto pair = pair_of_number(r - from[g]);
    const index_t key = first[law.admitted * groups + g];
    left[item] = static_cast<std::int32_t>(key + pair.i);
    right[item] = static_cast<std::int32_t>(key + pair.j);
    group[item] = static_cast<std::int32_t>(g);
  }
};

/// to (laws, slots, d) = differences of centred keys, slots [begin, begin + slots) of `all`.
struct key_differences {
  const double* y;
  const std::int32_t *left, *right;
  index_t d, begin, slots, all;
  double* to;
  QKGEOM_HD void operator()(index_t item) const {
    const index_t c = item % d, at = item / d, pair = at / slots * all + begin + at % slots;
    to[item] = y[left[pair] * d + c] - y[right[pair] * d + c];
  }
};

/// What is known of one law's differences: see `part_terms`. Columns of the product: z (width), coordinate 1, mean . y
/// of coordinates 2..d.
struct drawn_law {
  double drift_mean, drift_variance;
  index_t factored;  ///< whether row `law` of `factor` is coordinate 1's part of the factor
};

/// Values of drawn pairs, in the order of set_pair_values.
struct drawn_values {
  const double* product;  ///< (laws, slots, width + 2)
  const drawn_law* laws;
  const double* factor;  ///< (laws, width)
  const std::int32_t *left, *right, *position;
  index_t width, begin, slots, all;
  double* to;  ///< (laws, all, values)

  QKGEOM_HD void operator()(index_t item) const {
    const index_t l = item / slots, pair = l * all + begin + item % slots;
    const double* const z = product + item * (width + 2);
    const double *const row = factor + l * width, step = z[width];
    const drawn_law law = laws[l];
    double rest = 0, total = 0;
    for (index_t c = law.factored ? 0 : 1; c < width; ++c) {
      const double x = law.factored ? z[c] - row[c] * step : z[c];
      rest += x * x;
      total += z[c] * z[c];
    }
    const double along = law.drift_variance * step * step;
    backend::set_pair_values(law.drift_mean * step, z[width + 1], along, rest, law.factored ? total : along + rest,
                             position[left[pair]] == position[right[pair]], to + pair * heatmap_parts::values);
  }
};

/// Sums (laws, groups) over the draws of a law that fell into a group, in their order: weighted values, weighted square
/// of the plasticity, weight, how many.
struct sum_draws {
  static constexpr index_t values = heatmap_parts::values, width = values + 3;
  const double* value;
  const std::int32_t* group;
  const draws_of_law* laws;
  index_t groups, slots;
  double* to;

  QKGEOM_HD void operator()(index_t item) const {
    const index_t l = item / groups, g = item % groups;
    const double w = laws[l].weight;
    double sum[width] = {};
    for (index_t s = l * slots; s < l * slots + laws[l].count; ++s) {
      if (group[s] != g) continue;
      const double* const x = value + s * values;
      for (index_t v = 0; v < values; ++v) sum[v] += w * x[v];
      sum[values] += w * x[0] * x[0];
      sum[values + 1] += w;
      sum[values + 2] += 1;
    }
    for (index_t v = 0; v < width; ++v) to[item * width + v] = sum[v];
  }
};

}  // namespace qkgeom::thrust_kernels
