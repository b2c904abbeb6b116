// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <vector>

#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Moments of all rows of each head of x (n, heads, d), with the covariance, in f64: `total` of each; `side` names x in
/// errors. A backend's primitive, given by who runs the capture.
using moment_function = std::function<std::vector<side_moments>(const char* side, const tensor_view<const float>& x,
                                                                const vector_view<const std::int32_t>& position)>;

}  // namespace qkgeom
