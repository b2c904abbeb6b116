// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/backend/detail/pair_cells.hpp"
#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/backend/detail/thrust/device.hpp"

/// What is done with each drawn pair; see drawn.hpp.
namespace qkgeom::thrust_kernels {

/// The pairs that a distribution takes: `count` numbers of its `all` pairs, drawn, or 0, 1, ... where it takes all.
struct device_draws {
  index_t problem, distribution, admitted;  ///< `admitted`: which of the sets of admissible keys
  std::int64_t all, count;
  bool every;
  double weight;  ///< pairs that each one stands for
};

/// Draw number `slot` of each distribution: ranks become keys (left, right) of the groups' order; group -1 where a
/// distribution has fewer.
struct draw_keys {
  const device_draws* distributions;
  const std::int64_t* before;  ///< (sets, groups + 1) pairs in earlier groups
  const index_t* first;        ///< (sets, groups) first admissible key
  index_t groups, slots;
  pair_sample sample;
  std::int32_t *left, *right, *group;  ///< (distributions, slots)

  QKGEOM_HD void operator()(index_t item) const {
    const device_draws& distribution = distributions[item / slots];
    const index_t slot = item % slots;
    left[item] = right[item] = 0;
    group[item] = -1;
    if (slot >= distribution.count) return;
    const random_stream stream{sample.seed,
                               static_cast<std::uint32_t>(distribution.problem << 16 | distribution.distribution),
                               sample.layer, draw::pair};
    const std::int64_t* const from = before + distribution.admitted * (groups + 1);
    const auto r = distribution.every
                       ? slot
                       : static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(slot),
                                                                static_cast<std::uint64_t>(distribution.all)));
    const index_t g = place_in(from, groups, r);
    const auto pair = pair_of_number(r - from[g]);
    const index_t key = first[distribution.admitted * groups + g];
    left[item] = static_cast<std::int32_t>(key + pair.i);
    right[item] = static_cast<std::int32_t>(key + pair.j);
    group[item] = static_cast<std::int32_t>(g);
  }
};

/// to (distributions, slots, d) = differences of centred keys, slots [begin, begin + slots) of `all`.
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

/// What is known of one distribution's differences: see `pair_term_values`. Columns of the product: z (width),
/// coordinate 1, mean . y of coordinates 2..d.
struct drawn_distribution {
  double drift_mean, drift_variance;
  index_t factored;  ///< whether row `distribution` of `factor` is coordinate 1's term of the factor
};

/// Values of drawn pairs, in the order of set_pair_values.
struct drawn_values {
  const double* product;  ///< (distributions, slots, width + 2)
  const drawn_distribution* distributions;
  const double* factor;  ///< (distributions, width)
  const std::int32_t *left, *right, *position;
  index_t width, begin, slots, all;
  double* to;  ///< (distributions, all, values)

  QKGEOM_HD void operator()(index_t item) const {
    const index_t l = item / slots, pair = l * all + begin + item % slots;
    const double* const z = product + item * (width + 2);
    const double *const row = factor + l * width, step = z[width];
    const drawn_distribution distribution = distributions[l];
    double rest = 0, total = 0;
    for (index_t c = distribution.factored ? 0 : 1; c < width; ++c) {
      const double x = distribution.factored ? z[c] - row[c] * step : z[c];
      rest += x * x;
      total += z[c] * z[c];
    }
    const double along = distribution.drift_variance * step * step;
    backend::set_pair_values(distribution.drift_mean * step, z[width + 1], along, rest,
                             distribution.factored ? total : along + rest,
                             position[left[pair]] == position[right[pair]], to + pair * heatmap_terms::values);
  }
};

/// Sums (distributions, groups) over the draws of a distribution that fell into a group, in their order: weighted
/// values, weighted square of the plasticity, weight, how many.
struct sum_draws {
  static constexpr index_t values = heatmap_terms::values, width = values + 3;
  const double* value;
  const std::int32_t* group;
  const device_draws* distributions;
  index_t groups, slots;
  double* to;

  QKGEOM_HD void operator()(index_t item) const {
    const index_t l = item / groups, g = item % groups;
    const double w = distributions[l].weight;
    double sum[width] = {};
    for (index_t s = l * slots; s < l * slots + distributions[l].count; ++s) {
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
