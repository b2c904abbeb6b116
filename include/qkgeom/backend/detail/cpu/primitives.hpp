// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <vector>

#include "qkgeom/backend/detail/cpu/wide_rows.hpp"
#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/thread_pool.hpp"

/// The primitives of cpu_context that take long to compile: once, since their element types are erased.
namespace qkgeom::cpu {

QKGEOM_INLINE std::vector<side_moments> moments(thread_pool& pool, const char* side, const wide_tensor& x,
                                                const vector_view<const std::int32_t>& position,
                                                const std::vector<std::int32_t>& bucket, index_t buckets,
                                                scatter_kind per_bucket);

/// Memory that pair sums keep between calls.
struct pair_memory;
QKGEOM_INLINE std::shared_ptr<pair_memory> make_pair_memory();

QKGEOM_INLINE std::vector<pair_sums> gaussian_pairs(thread_pool& pool, pair_memory& memory, pair_precision precision,
                                                    const wide_tensor& k, const keys_by_document& groups,
                                                    const std::vector<pair_problem>& problems,
                                                    const pair_request& request);

QKGEOM_INLINE std::vector<pair_sums> empirical_pairs(thread_pool& pool, pair_precision precision, const wide_tensor& q,
                                                     const wide_tensor& k, const keys_by_document& groups,
                                                     const std::vector<empirical_problem>& problems);

}  // namespace qkgeom::cpu

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/backend/detail/cpu/primitive_bodies.hpp"
#endif
