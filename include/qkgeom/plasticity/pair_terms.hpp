// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// The profile of one `pair_term`: `plasticity` and `standard_error` of its buckets are the term's mean over the same
/// pairs and its jackknife error over documents. Throws if the profile was made without `profile_options::terms`.
QKGEOM_INLINE plasticity_profile_result term_profile(const plasticity_profile_result& profile, pair_term term);

/// Mean plasticity of a heatmap's cell, by the cell's indices, with its error over documents. Throws if the heatmap
/// lacks the cell or was made without `profile_options::terms`.
QKGEOM_INLINE estimate cell_mean(const plasticity_heatmap& map, index_t key_distance, index_t query_distance);

/// Mean of a term in a heatmap's cell, likewise.
QKGEOM_INLINE estimate cell_mean(const plasticity_heatmap& map, index_t key_distance, index_t query_distance,
                                 pair_term term);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/plasticity/detail/pair_terms.hpp"
#endif
