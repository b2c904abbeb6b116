// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/context/needle_scores.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom::linalg {

using qkgeom::no_score, qkgeom::score_excess, qkgeom::split_scores;

/// Rows of scores are padded to whole lanes with `no_score`.
inline constexpr index_t score_lanes = 16;

/// Splits n scores (a multiple of `score_lanes`) at a threshold, and adds `weight` to the share of each one above it.
QKGEOM_INLINE split_scores split_at(const float* scores, index_t n, float threshold, float weight, float* share);

/// Returns the excesses of n scores (one or more, padded to whole lanes), in single precision about the first of them.
QKGEOM_INLINE score_excess excess_of(const float* scores, index_t n);

}  // namespace qkgeom::linalg

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/linalg/detail/scores.hpp"
#endif
