// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// The profile of one `pair_term`: `plasticity` and `standard_error` of its buckets are the term's mean over the same
/// pairs and its jackknife error over documents. Throws if the profile was made without `profile_options::terms`.
inline plasticity_profile_result term_profile(const plasticity_profile_result& profile, pair_term term);

/// Mean of a value of a heatmap cell with its error over documents: value 0 is the plasticity, value 1 + p is term p.
/// With sums S_g, W_g of document g of G, and S / W the mean, the error is the infinitesimal jackknife's,
/// (G / (G - 1) sum (S_g - S W_g / W)^2)^(1/2) / W, which needs no sums per document.
inline estimate cell_mean(const heatmap_terms& cells, std::size_t cell, std::size_t value);

/// Mean plasticity of a heatmap's cell, by the cell's indices. Throws if the heatmap lacks the cell or was made without
/// `profile_options::terms`.
inline estimate cell_mean(const plasticity_heatmap& map, index_t key_distance, index_t query_distance);

/// Mean of a term in a heatmap's cell.
inline estimate cell_mean(const plasticity_heatmap& map, index_t key_distance, index_t query_distance, pair_term term);

}  // namespace qkgeom

#include "qkgeom/plasticity/detail/pair_terms.hpp"
