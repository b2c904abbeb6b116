// SPDX-License-Identifier: MIT
// embed_cuda: a program with device pointers and a stream of its own calls the library, and reads host values.
#include <cstdio>
#include <string>

#include "qkgeom/backend/cuda_context.cuh"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/planted/heads.hpp"
#include "qkgeom/plasticity/profile.hpp"

template <class T>
T* on_device(const std::vector<T>& x) {  // stands for memory that the program filled itself
  T* p = nullptr;
  cudaMalloc(&p, x.size() * sizeof(T));
  cudaMemcpy(p, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice);
  return p;
}

int main() try {
  using namespace qkgeom;
  constexpr auto device = memory_space::device;
  const auto rows = plant<bf16>({.dim = 64, .context_length = 8192, .documents = 8, .rows = 512});
  const index_t n = 8 * 512;
  const matrix_view<const bf16, device> q{on_device(rows.q), n, 64, 64}, k{on_device(rows.k), n, 64, 64};
  const vector_view<const std::int32_t, device> q_at{on_device(rows.q_position), n},
      k_at{on_device(rows.k_position), n}, q_document{on_device(rows.q_document), n},
      k_document{on_device(rows.k_document), n};
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  cuda_context ctx{{.stream = stream}};
  const head_view<bf16, device> head{q, q_at, q_document, k, k_at, k_document};
  const auto moments = accumulate(ctx, head, uniform_buckets{1024}, {.context_length = 8192});
  std::printf("%s\n", std::string(name_of(pca(ctx, moments).head_class)).c_str());
  for (const auto& b : plasticity_profile(ctx, fit_queries(ctx, moments), head).buckets)
    std::printf("%lld %.6f +- %.6f\n", static_cast<long long>(b.start), b.plasticity, b.standard_error);
} catch (const std::exception& e) {
  std::fprintf(stderr, "embed_cuda: %s\n", e.what());
  return 1;
}
