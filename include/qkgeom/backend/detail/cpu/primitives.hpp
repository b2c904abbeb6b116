// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <vector>

#include "qkgeom/backend/detail/cpu/wide_rows.hpp"
#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/linalg/products.hpp"
#include "qkgeom/linalg/scores.hpp"
#include "qkgeom/linalg/symmetric.hpp"

namespace qkgeom::cpu {

/// Memory that pair sums keep between calls.
struct pair_memory;

/// The heavy functions of the CPU, compiled for one instruction set: they take erased element types, so each is
/// compiled once per set.
struct kernel_set {
  const char* name;  ///< the instruction set, for example "x86-64-v4"

  std::vector<side_moments> (*moments)(thread_pool& pool, const char* side, const wide_tensor& x,
                                       const vector_view<const std::int32_t>& position,
                                       const std::vector<std::int32_t>& bucket, index_t buckets,
                                       scatter_kind per_bucket);
  std::shared_ptr<pair_memory> (*make_pair_memory)();
  std::vector<pair_sums> (*gaussian_pairs)(thread_pool& pool, pair_memory& memory, pair_precision precision,
                                           const wide_tensor& k, const keys_by_document& groups,
                                           const std::vector<pair_problem>& problems, const pair_request& request);
  std::vector<pair_sums> (*empirical_pairs)(thread_pool& pool, pair_precision precision, const wide_tensor& q,
                                            const wide_tensor& k, const keys_by_document& groups,
                                            const std::vector<empirical_problem>& problems);
  eigen_system (*symmetric_eigen)(const std::vector<double>& matrix, index_t d);
  semidefinite_root (*semidefinite_factor)(const std::vector<double>& matrix, index_t d);
  std::vector<double> (*quadratic_rows)(const std::vector<double>& m, const std::vector<double>& v, std::size_t d);
  void (*row_products)(const float* a, index_t n, const float* b, index_t m, index_t d, float* out);
  linalg::split_scores (*split_at)(const float* scores, index_t n, float threshold, float weight, float* share);
  linalg::score_excess (*excess_of)(const float* scores, index_t n);
};

/// Returns the kernels that run here: those compiled with this unit or, in a build that holds several sets, the set
/// that `instruction_set()` names.
QKGEOM_INLINE const kernel_set& kernels();

}  // namespace qkgeom::cpu

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/backend/detail/cpu/primitive_bodies.hpp"
#endif
