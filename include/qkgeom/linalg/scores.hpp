// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/config.hpp"

namespace qkgeom::linalg {

/// Rows of scores are padded to whole lanes with `no_score`, which is below all scores.
inline constexpr index_t score_lanes = 16;
inline constexpr float no_score = -1e30f;

/// Scores on both sides of a threshold.
struct split_scores {
  float count = 0;                            ///< number above the threshold
  float above = -no_score, below = no_score;  ///< the least score above it, the largest other one
  float square = 0;                           ///< sum of the squared shares
};

/// Splits n scores (a multiple of `score_lanes`) at a threshold, and adds `weight` to the share of each one above it.
QKGEOM_INLINE split_scores split_at(const float* scores, index_t n, float threshold, float weight, float* share);

/// The largest score, and the number of scores above `start` (mean + 1.5 standard deviations), with the sum of their
/// excesses over it and of these squared.
struct score_excess {
  float top = no_score;
  double start = 0, count = 0, sum = 0, square = 0;
};

/// Returns the excesses of n scores (one or more, padded to whole lanes), in single precision about the first of them.
QKGEOM_INLINE score_excess excess_of(const float* scores, index_t n);

}  // namespace qkgeom::linalg

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/linalg/detail/scores.hpp"
#endif
