// SPDX-License-Identifier: MIT
#pragma once

#include <functional>

#include "qkgeom/core/config.hpp"

namespace qkgeom {
class capture_set;
struct analysis_options;
struct model_report;
}  // namespace qkgeom

// What a program does with --device cuda. Defined twice: in analysis_cuda.cu for the programs whose names end in -cuda,
// in no_cuda.cpp for all others, which become those.
namespace qkgeom::examples {

/// Before anything is done. Throws `error` where there is no device, or no program that can use it.
void start_cuda(char** argv);

/// `analyse` with the rows in host memory and the primitives on the first CUDA device; `threads` of the host.
model_report analyse_on_cuda(const capture_set& source, const analysis_options& options, int threads,
                             const std::function<void(index_t)>& progress);

}  // namespace qkgeom::examples
