// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/plasticity/profile.hpp"

namespace qkgeom {

/// The profile of the pairs of `a` and `b` together: of one head under one query model, over keys of different
/// documents or of different shards of a block of documents. Throws if models, pair sets, buckets or heatmap cells
/// differ.
QKGEOM_INLINE plasticity_profile_result merge(plasticity_profile_result a, const plasticity_profile_result& b);

/// Joins the documents e of a profile into blocks e / block, with the id of the first document. The profile then does
/// not grow with the documents, and its jackknife leaves out a block at a time; means do not change.
QKGEOM_INLINE void fold_documents(plasticity_profile_result& profile, index_t block);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/plasticity/detail/merge.hpp"
#endif
