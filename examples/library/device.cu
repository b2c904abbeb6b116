// SPDX-License-Identifier: MIT
// Rows that are on a GPU already: the same calls on the program's own device pointers and stream.
#include <cstdio>
#include <string>
#include <vector>

#include "qkgeom/backend/cuda_context.cuh"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "qkgeom/plasticity/profile.hpp"

template <class T>
T* on_device(const std::vector<T>& x) {  // stands for memory that the program filled itself
  T* p = nullptr;
  cudaMalloc(&p, x.size() * sizeof(T));
  cudaMemcpy(p, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice);
  return p;
}

int main() try {
  constexpr qkgeom::index_t dim = 64, documents = 8, rows_each = 512, n = documents * rows_each;
  const auto rows =
      qkgeom::plant<qkgeom::bf16>({.dim = dim, .context_length = 8192, .documents = documents, .rows = rows_each});
  const auto matrix = [&](const std::vector<qkgeom::bf16>& x) {
    return qkgeom::matrix_view<const qkgeom::bf16, qkgeom::memory_space::device>{on_device(x), n, dim, dim};
  };
  const auto vector = [&](const std::vector<std::int32_t>& x) {
    return qkgeom::vector_view<const std::int32_t, qkgeom::memory_space::device>{on_device(x), n};
  };
  const qkgeom::head_view<qkgeom::bf16, qkgeom::memory_space::device> head{
      matrix(rows.q), vector(rows.q_position), vector(rows.q_document),
      matrix(rows.k), vector(rows.k_position), vector(rows.k_document)};

  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  qkgeom::cuda_context gpu{{.stream = stream}};
  const auto moments = qkgeom::accumulate(gpu, head, qkgeom::uniform_buckets{1024}, {.context_length = 8192});
  std::printf("%s\n", std::string(name_of(qkgeom::pca(gpu, moments).head_class)).c_str());
  for (const auto& bucket : qkgeom::plasticity_profile(gpu, qkgeom::fit_queries(gpu, moments), head).buckets)
    if (bucket.pairs > 0)
      std::printf("%5d to %4d  %.6f ± %.6f\n", static_cast<int>(bucket.start), static_cast<int>(bucket.end),
                  bucket.plasticity, bucket.standard_error);
} catch (const std::exception& e) {
  std::fprintf(stderr, "library_device: %s\n", e.what());
  return 1;
}
