// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

/// Marks a function that compiles for host and device alike.
#if defined(__CUDACC__)
#define QKGEOM_HD __host__ __device__
#else
#define QKGEOM_HD
#endif

/// QKGEOM_UNROLL unrolls the loop that follows in device code, so that arrays indexed by it stay in registers;
/// QKGEOM_ROLLED keeps the compiler from unrolling it.
#if defined(__CUDA_ARCH__)
#define QKGEOM_UNROLL _Pragma("unroll")
#define QKGEOM_ROLLED _Pragma("unroll 1")
#else
#define QKGEOM_UNROLL
#define QKGEOM_ROLLED
#endif

/// Heavy functions that are not templates are inline, with their bodies included where they are declared. A build of
/// many programs may compile the bodies once (.cmake/precompiled.cpp) and define QKGEOM_PRECOMPILED in every unit.
#if defined(QKGEOM_PRECOMPILED)
#define QKGEOM_INLINE
#else
#define QKGEOM_INLINE inline
#endif

namespace qkgeom {

/// Sizes, row numbers and token positions. Signed, so that differences are safe.
using index_t = std::int64_t;

/// Rounds n >= 0 up to a multiple of `multiple`.
QKGEOM_HD constexpr index_t round_up(index_t n, index_t multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace qkgeom
