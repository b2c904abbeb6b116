// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/backend/detail/cpu/empirical_pairs.hpp"
#include "qkgeom/backend/detail/cpu/gaussian_pairs.hpp"
#include "qkgeom/backend/detail/cpu/primitives.hpp"
#include "qkgeom/backend/detail/cpu/side_moments.hpp"
#include "qkgeom/linalg/products.hpp"
#include "qkgeom/linalg/symmetric.hpp"

/// The instruction set that this unit is compiled for.
#if defined(__AVX512VBMI2__) && defined(__AVX512VPOPCNTDQ__) && defined(__AVX512VNNI__)
#define QKGEOM_COMPILED_FOR "AVX-512 with VNNI and VBMI2"
#elif defined(__AVX512F__)
#define QKGEOM_COMPILED_FOR "AVX-512"
#elif defined(__AVX2__)
#define QKGEOM_COMPILED_FOR "AVX2"
#elif defined(__SSE4_2__)
#define QKGEOM_COMPILED_FOR "SSE4.2"
#else
#define QKGEOM_COMPILED_FOR "the least CPU"
#endif

namespace qkgeom::cpu {

inline std::vector<side_moments> moments(thread_pool& pool, const char* side, const wide_tensor& x,
                                         const vector_view<const std::int32_t>& position,
                                         const std::vector<std::int32_t>& bucket, index_t buckets,
                                         scatter_kind per_bucket) {
  std::vector<side_moments> result(x.heads);
  const row_order order(bucket, buckets);
  pool.for_each(x.heads,
                [&](index_t h, int) { result[h] = side_moments_of(side, h, x.head(h), position, order, per_bucket); });
  return result;
}

struct pair_memory {
  std::vector<pair_scratch<float>> f32;
  std::vector<pair_scratch<double>> f64;
};

inline std::shared_ptr<pair_memory> make_pair_memory() { return std::make_shared<pair_memory>(); }

inline std::vector<pair_sums> gaussian_pairs(thread_pool& pool, pair_memory& memory, pair_precision precision,
                                             const wide_tensor& k, const keys_by_document& groups,
                                             const std::vector<pair_problem>& problems, const pair_request& request) {
  const bool f32 = precision == pair_precision::f32 && backend::f32_holds(backend::largest_of(problems)) &&
                   backend::f32_holds(largest_value(pool, k));
  return f32 ? gaussian_pairs(pool, memory.f32, k, groups, problems, request)
             : gaussian_pairs(pool, memory.f64, k, groups, problems, request);
}

inline std::vector<pair_sums> empirical_pairs(thread_pool& pool, pair_precision precision, const wide_tensor& q,
                                              const wide_tensor& k, const keys_by_document& groups,
                                              const std::vector<empirical_problem>& problems) {
  const bool f32 = precision == pair_precision::f32 && backend::f32_holds(largest_value(pool, q)) &&
                   backend::f32_holds(largest_value(pool, k));
  return f32 ? empirical_pairs<float>(pool, q, k, groups, problems)
             : empirical_pairs<double>(pool, q, k, groups, problems);
}

/// Returns the kernels that are compiled with this unit.
inline const kernel_set& kernels_here() {
  static constexpr kernel_set here{.name = QKGEOM_COMPILED_FOR,
                                   .moments = moments,
                                   .make_pair_memory = make_pair_memory,
                                   .gaussian_pairs = gaussian_pairs,
                                   .empirical_pairs = empirical_pairs,
                                   .symmetric_eigen = linalg::symmetric_eigen,
                                   .semidefinite_factor = linalg::semidefinite_factor,
                                   .quadratic_rows = linalg::quadratic_rows,
                                   .row_products = linalg::row_products,
                                   .split_at = linalg::split_at,
                                   .excess_of = linalg::excess_of};
  return here;
}

#if !defined(QKGEOM_PRECOMPILED)
inline const kernel_set& kernels() { return kernels_here(); }
#endif

}  // namespace qkgeom::cpu
