// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "capture/job/run_capture.hpp"
#include "capture/job/stores/moment_function.hpp"
#include "qkgeom/backend/cpu_context.hpp"

namespace qkgeom {

/// Computes moments on `cpu`, which must outlive the backend; the forward pass is the default.
inline capture_backend cpu_backend(cpu_context& cpu) {
  return {.moments = [&cpu](const char* side, const tensor_view<const float>& x,
                            const vector_view<const std::int32_t>& position) {
    return total_moments(cpu, side, x, position);
  }};
}

}  // namespace qkgeom
