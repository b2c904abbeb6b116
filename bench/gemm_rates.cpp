// SPDX-License-Identifier: MIT
// Prints OpenBLAS's kernel set and its sgemm and dgemm rates (FLOP/s) with a number of threads: `gemm_rates 2`. It is a
// program of its own, since OpenBLAS chooses its kernels once, by OPENBLAS_CORETYPE, when it is loaded. Each thread
// multiplies its own matrices with single-threaded BLAS, whose threads would spin during the measurement.
#include <cblas.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/common/rates.hpp"

namespace {

void multiply(blasint n, const float* a, const float* b, float* c) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, n, 1.0f, a, n, b, n, 0.0f, c, n);
}
void multiply(blasint n, const double* a, const double* b, double* c) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, n, 1.0, a, n, b, n, 0.0, c, n);
}

template <class T>
double flop_rate(int threads, blasint n) {
  const auto size = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
  struct matrices {
    std::vector<T> a, b, c;
  };
  std::vector<matrices> own(threads);
  for (auto& m : own) {
    qkgeom::bench::fill_random(m.a, size);
    qkgeom::bench::fill_random(m.b, size);
    m.c.assign(size, T(0));
  }
  const double seconds = qkgeom::bench::best_round(threads, 1.5, [&](int t) {
    auto& m = own[t];
    multiply(n, m.a.data(), m.b.data(), m.c.data());
  });
  return 2.0 * n * n * n * threads / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (threads < 1) {
    std::fprintf(stderr, "usage: gemm_rates THREADS\n");
    return 2;
  }
  openblas_set_num_threads(1);
  std::printf("%s %.6g %.6g\n", openblas_get_corename(), flop_rate<float>(threads, 1024),
              flop_rate<double>(threads, 768));
}
