// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom {

/// The mean plasticity of every head over one region of the context, with all documents and without each.
struct region_values {
  double start = 0, end = 0;                 ///< tokens
  std::vector<double> value;                 ///< (heads) headline model; NaN is null
  std::vector<std::vector<double>> without;  ///< (documents)(heads)
};

/// Means over the query buckets whose middle lies in [start, end), tokens, as in `bin_means`.
inline region_values values_in_region(const model_report& report, double start, double end);

/// The values of a group's heads without document `left_out` (-1: with all), those that are NaN left out.
inline std::vector<double> values_without(const region_values& r, index_t left_out,
                                          const std::vector<std::size_t>& heads) {
  return values_of(left_out < 0 ? r.value : r.without[left_out], heads);
}

/// A number made of some regions over a group of heads, with both its errors: `value(e, heads)` gives it without
/// document e (-1: with all). Both errors are jackknives, so the number must be a smooth function of each head's value.
/// Documents that change nothing are left out of the jackknife.
template <class Value>
head_estimate estimate_over_heads(const std::vector<const region_values*>& regions,
                                  const std::vector<std::size_t>& heads, const Value& value);

}  // namespace qkgeom

#include "qkgeom/study/detail/head_regions.hpp"
