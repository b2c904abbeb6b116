// SPDX-License-Identifier: MIT
#include "capture/forward/products/blas.hpp"

#include <cblas.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/instruction_set.hpp"

namespace qkgeom {

namespace {

std::atomic<int> blas_threads = 1;  // captures of one process may start side by side
std::once_flag room_was_tried;

/// OpenBLAS maps a buffer of this size (BUFFER_SIZE of its common_x86_64.h) for each thread that multiplies, and
/// retries forever where that fails.
constexpr std::size_t blas_buffer = std::size_t{128} << 20;
/// malloc reserves this for a thread (HEAP_MAX_SIZE of glibc), maybe between the trial and the thread's first product.
constexpr std::size_t thread_arena = std::size_t{64} << 20;

void try_room() {
  const int threads = blas_threads;
  const std::size_t bytes = threads * (blas_buffer + thread_arena);
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(room != MAP_FAILED, "not enough memory: matrix products on ", threads, " threads need ", bytes >> 20,
          " MiB of address space; fewer --threads, or a higher limit (ulimit -v)");
  ::munmap(room, bytes);
}

blasint n(index_t i) { return static_cast<blasint>(i); }

}  // namespace

void multiply_transposed(index_t rows, index_t out, index_t in, const float* x, index_t x_stride, const float* w,
                         index_t w_stride, float* y, index_t y_stride) {
  std::call_once(room_was_tried, try_room);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n(rows), n(out), n(in), 1.0f, x, n(x_stride), w, n(w_stride),
              0.0f, y, n(y_stride));
}

void multiply(index_t rows, index_t columns, index_t in, const float* a, const float* b, float* y) {
  std::call_once(room_was_tried, try_room);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n(rows), n(columns), n(in), 1.0f, a, n(in), b, n(columns),
              0.0f, y, n(columns));
}

void add_product_of_transposed(index_t rows, index_t columns, index_t in, const float* a, const float* b, float* y) {
  std::call_once(room_was_tried, try_room);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, n(rows), n(columns), n(in), 1.0f, a, n(rows), b, n(columns),
              1.0f, y, n(columns));
}

void prepare_blas(int threads) {
  openblas_set_num_threads(1);
  blas_threads = threads;
}

void set_blas_environment(char** argv) {
  const auto value = [](const char* name) {
    const char* const text = std::getenv(name);
    return std::string_view(text ? text : "");
  };
  constexpr const char* threads = "OPENBLAS_NUM_THREADS";
  bool changed = value(threads).empty() && ::setenv(threads, "1", 1) == 0;
#if defined(__x86_64__)
  constexpr const char* kernels = "OPENBLAS_CORETYPE";
  const std::string_view chosen = openblas_get_corename();
  const auto take = [&](const char* name) { changed |= value(kernels).empty() && ::setenv(kernels, name, 1) == 0; };
  if (const auto used = used_instruction_set(); used < best_instruction_set())
    take(used == instruction_set::v2 ? "NEHALEM" : used == instruction_set::v3 ? "HASWELL" : "SKYLAKEX");
  else if (used >= instruction_set::v4 && (chosen == "Haswell" || chosen == "Zen"))
    take("SKYLAKEX");
#endif
  if (changed) ::execv("/proc/self/exe", argv);  // returns only on failure; then the program goes on unchanged
}

}  // namespace qkgeom
