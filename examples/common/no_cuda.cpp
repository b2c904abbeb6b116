// SPDX-License-Identifier: MIT
#include "examples/common/cuda.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom::examples {

void start_cuda(char** argv) { become_cuda_program(argv); }

model_report analyse_on_cuda(const capture_set&, const analysis_options&, int, const std::function<void(index_t)>&) {
  fail("this program was built without CUDA");
}

}  // namespace qkgeom::examples
