// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "capture/job/run_capture.hpp"
#include "capture/job/stores/moment_function.hpp"
#include "qkgeom/backend/cpu_context.hpp"

namespace qkgeom {

/// Moments of a capture on the CPU; the forward pass is the usual one. `cpu` must outlive the backend.
inline capture_backend cpu_backend(cpu_context& cpu) {
  return {.moments = [&cpu](const char* side, const tensor_view<const float>& x,
                            const vector_view<const std::int32_t>& position) {
    return total_moments(cpu, side, x, position);
  }};
}

}  // namespace qkgeom
