// SPDX-License-Identifier: MIT
// Instantiates the analyses for a GPU, once for all programs.
#include "examples/common/cuda.hpp"
#include "qkgeom/backend/cuda_context.cuh"
#include "qkgeom/backend/uploading_context.hpp"
#include "qkgeom/report/analyse.hpp"

namespace qkgeom::examples {

void start_cuda(char**) { cuda_kernels::require_device(); }

model_report analyse_on_cuda(const capture_set& source, const analysis_options& options, int threads,
                             const std::function<void(index_t)>& progress) {
  cuda_context gpu{{.threads = threads}};
  uploading_context ctx{gpu};
  return analyse(ctx, source, options, progress);
}

}  // namespace qkgeom::examples
