// SPDX-License-Identifier: MIT
#pragma once

#include "capture/job/job.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Moments and analyses of a capture on the CPU; the forward pass is the usual one. `cpu` must outlive the backend.
capture_backend cpu_backend(cpu_context& cpu);

/// Pairs of keys per second under the query models of `live` for heads of `dim` channels, measured on 4096 keys.
double pairs_per_second(cpu_context& cpu, index_t dim, const live_analysis_options& live);

}  // namespace qkgeom
