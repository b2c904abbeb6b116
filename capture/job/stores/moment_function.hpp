// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Computes the moments of all rows of each head of x (n, heads, d), covariance included, in f64, as each head's
/// `total`. `side` names x in errors.
using moment_function = std::function<std::vector<side_moments>(const char* side, const tensor_view<const float>& x,
                                                                const vector_view<const std::int32_t>& position)>;

/// Implements `moment_function` on a context; x may be in any memory that the context takes.
template <class Context, class T, memory_space S>
std::vector<side_moments> total_moments(Context& context, const char* side, const tensor_view<const T, S>& x,
                                        const vector_view<const std::int32_t, S>& position) {
  const std::vector<std::int32_t> no_bucket(x.rows, -1);
  return context.moments(side, x, position, no_bucket, 0, scatter_kind::full);
}

}  // namespace qkgeom
