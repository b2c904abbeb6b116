// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/io/capture_set.hpp"

namespace qkgeom {

/// Field of manifest.json: the parts of a head by name, {"rope": [first coordinate, end]}.
inline constexpr const char* head_parts_field = "head_parts";

/// The same captures with the coordinates of one part of each head alone (`head_parts` of the manifest), as heads of
/// that size: of latent attention "nope", before the rotary embedding's coordinates, or "rope", these. The scale of
/// scores stays that of whole heads. Moments of every token and sums of the forward pass count as absent. Throws
/// `error` that names the parts if there is none of that name, or if the rotary embedding turns some of its coordinates
/// and not others.
QKGEOM_INLINE capture_set head_part(const capture_set& source, const std::string& name);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/io/detail/head_part.hpp"
#endif
