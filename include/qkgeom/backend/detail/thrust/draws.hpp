// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/backend/detail/pair_cells.hpp"
#include "qkgeom/backend/detail/thrust/device.hpp"
#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/core/random.hpp"

/// The steps of drawn pairs, with one item per pair; see drawn.hpp.
namespace qkgeom::thrust_kernels {

/// The pairs that a query bucket takes: `count` drawn numbers of its `all` pairs, or all of them if `every`.
struct bucket_draws {
  index_t problem, bucket, admitted;  ///< `admitted`: number of the set of admissible keys
  std::int64_t all, count;
  bool every;
  double weight;  ///< admissible pairs per taken pair
};

/// Finds draw `slot` of each bucket: keys `left` and `right`, in the order of the groups, and their group, or -1.
struct draw_keys {
  const bucket_draws* buckets;
  const std::int64_t* before;  ///< (sets, groups + 1) pairs in earlier groups
  const index_t* first;        ///< (sets, groups) first admissible key
  index_t groups, slots;
  pair_sample sample;
  std::int32_t *left, *right, *group;  ///< (buckets, slots)

  QKGEOM_HD void operator()(index_t item) const {
    const bucket_draws& bucket = buckets[item / slots];
    const index_t slot = item % slots;
    left[item] = right[item] = 0;
    group[item] = -1;
    if (slot >= bucket.count) return;
    const random_stream stream{sample.seed, static_cast<std::uint32_t>(bucket.problem << 16 | bucket.bucket),
                               sample.layer, draw::pair};
    const std::int64_t* const from = before + bucket.admitted * (groups + 1);
    const auto r = bucket.every ? slot
                                : static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(slot),
                                                                         static_cast<std::uint64_t>(bucket.all)));
    const index_t g = place_in(from, groups, r);
    const auto pair = pair_of_number(r - from[g]);
    const index_t key = first[bucket.admitted * groups + g];
    left[item] = static_cast<std::int32_t>(key + pair.i);
    right[item] = static_cast<std::int32_t>(key + pair.j);
    group[item] = static_cast<std::int32_t>(g);
  }
};

/// Writes differences of centred keys to `to` (buckets, slots, d), for slots [begin, begin + slots) of `all`.
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

/// Numbers of one bucket for drawn_values; see `term_function`.
struct drawn_bucket {
  double drift_mean, drift_variance;
  index_t factored;  ///< whether the covariance has a factor; drawn_values::factor has its row of coordinate 1
};

/// Computes values of drawn pairs, in the order of set_pair_values.
struct drawn_values {
  const double* product;  ///< (buckets, slots, width + 2): z (width), coordinate 1, mean . difference of the others
  const drawn_bucket* buckets;
  const double* factor;  ///< (buckets, width)
  const std::int32_t *left, *right, *position;
  index_t width, begin, slots, all;
  double* to;  ///< (buckets, all, values)

  QKGEOM_HD void operator()(index_t item) const {
    const index_t l = item / slots, pair = l * all + begin + item % slots;
    const double* const z = product + item * (width + 2);
    const double *const row = factor + l * width, step = z[width];
    const drawn_bucket bucket = buckets[l];
    double rest = 0, total = 0;
    for (index_t c = bucket.factored ? 0 : 1; c < width; ++c) {
      const double x = bucket.factored ? z[c] - row[c] * step : z[c];
      rest += x * x;
      total += z[c] * z[c];
    }
    const double along = bucket.drift_variance * step * step;
    backend::set_pair_values(bucket.drift_mean * step, z[width + 1], along, rest,
                             bucket.factored ? total : along + rest, position[left[pair]] == position[right[pair]],
                             to + pair * heatmap_terms::values);
  }
};

/// Sums over the draws of a bucket in a group, in their order, to (buckets, groups, width): weighted values, weighted
/// square of the plasticity, weight, number of draws.
struct sum_draws {
  static constexpr index_t values = heatmap_terms::values, width = values + 3;
  const double* value;
  const std::int32_t* group;
  const bucket_draws* buckets;
  index_t groups, slots;
  double* to;

  QKGEOM_HD void operator()(index_t item) const {
    const index_t l = item / groups, g = item % groups;
    const double w = buckets[l].weight;
    double sum[width] = {};
    for (index_t s = l * slots; s < l * slots + buckets[l].count; ++s) {
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
