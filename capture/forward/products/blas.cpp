// SPDX-License-Identifier: MIT
#include "capture/forward/products/blas.hpp"

#include <cblas.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace qkgeom {

void multiply_transposed(index_t rows, index_t out, index_t in, const float* x, index_t x_stride, const float* w,
                         float* y, index_t y_stride) {
  const auto n = [](index_t i) { return static_cast<blasint>(i); };
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n(rows), n(out), n(in), 1.0f, x, n(x_stride), w, n(in), 0.0f, y,
              n(y_stride));
}

void use_one_blas_thread() { openblas_set_num_threads(1); }

void choose_blas_kernels(char** argv) {
#if defined(__x86_64__)
  constexpr const char* variable = "OPENBLAS_CORETYPE";
  if (std::getenv(variable)) return;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const std::string_view chosen = openblas_get_corename();
  if (!avx512 || (chosen != "Haswell" && chosen != "Zen")) return;
  ::setenv(variable, "SKYLAKEX", 1);
  ::execv("/proc/self/exe", argv);  // returns only if it failed; then the slower kernels do
#else
  (void)argv;
#endif
}

}  // namespace qkgeom
