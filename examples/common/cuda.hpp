// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "qkgeom/core/config.hpp"

namespace qkgeom {
class capture_set;
struct analysis_options;
struct model_report;
}  // namespace qkgeom

// --device cuda. analysis_cuda.cu defines these functions for heads-cuda, pca-cuda and the like, no_cuda.cpp for all
// other programs, where start_cuda replaces the process by the program with CUDA.
namespace qkgeom::examples {

/// Call it first. Throws `error` if there is no device, or no program built with CUDA.
void start_cuda(char** argv);

/// `analyse` on the first CUDA device, with rows in host memory; `threads` is the number of host threads.
model_report analyse_on_cuda(const capture_set& source, const analysis_options& options, int threads,
                             const std::function<void(index_t)>& progress);

}  // namespace qkgeom::examples
