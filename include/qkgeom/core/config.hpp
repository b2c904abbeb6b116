// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

/// Marks a function that compiles for host and device alike.
#if defined(__CUDACC__)
#define QKGEOM_HD __host__ __device__
#else
#define QKGEOM_HD
#endif

namespace qkgeom {

/// Sizes, row numbers and token positions. Signed, so that differences are safe.
using index_t = std::int64_t;

}  // namespace qkgeom
