// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "qkgeom/backend/cuda_resources.cuh"
#include "qkgeom/backend/detail/thrust_moments.hpp"
#include "qkgeom/core/eigen_system.hpp"

namespace qkgeom::cuda_kernels {

/// Eigenvalues, descending, and eigenvectors as rows of symmetric (d, d) matrices: one batched call.
template <class Machine>
std::vector<eigen_system> symmetric_eigen(const Machine& on, const handles& use,
                                          const std::vector<const std::vector<double>*>& matrices, index_t d) {
  const auto batch = static_cast<index_t>(matrices.size());
  if (batch == 0 || d == 0) return std::vector<eigen_system>(matrices.size());
  std::vector<double> packed;
  for (const auto* m : matrices) {
    require(std::all_of(m->begin(), m->end(), [](double x) { return std::isfinite(x); }),
            "symmetric_eigen: the matrix (", d, " x ", d, ") has entries that are not finite");
    packed.insert(packed.end(), m->begin(), m->end());
  }
  const auto a = on.copy(packed);
  const auto w = on.template make<double>(batch * d);
  const auto info = on.template make<int>(batch);
  std::size_t on_device = 0, on_host = 0;
  check(cusolverDnXsyevBatched_bufferSize(use.solver(), use.params(), CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER,
                                          d, CUDA_R_64F, a.data(), d, CUDA_R_64F, w.data(), CUDA_R_64F, &on_device,
                                          &on_host, batch),
        "cusolverDnXsyevBatched_bufferSize");
  const auto work = on.template make<char>(static_cast<index_t>(on_device));
  std::vector<char> host_work(on_host);
  check(cusolverDnXsyevBatched(use.solver(), use.params(), CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, d,
                               CUDA_R_64F, a.data(), d, CUDA_R_64F, w.data(), CUDA_R_64F, work.data(), on_device,
                               host_work.data(), on_host, info.data(), batch),
        "cusolverDnXsyevBatched");
  const auto values = w.host(), vectors = a.host();
  for (const int failed : info.host())
    require(failed == 0, "symmetric_eigen: no convergence on a ", d, " x ", d, " matrix");
  // Ascending, with eigenvector i in column i of a column-major matrix: row i of what is read here.
  std::vector<eigen_system> result;
  for (index_t b = 0; b < batch; ++b) {
    eigen_system s;
    for (index_t i = d; i-- > 0;) {
      s.values.push_back(values[static_cast<std::size_t>(b * d + i)]);
      const auto row = vectors.begin() + (b * d + i) * d;
      s.vectors.insert(s.vectors.end(), row, row + d);
    }
    result.push_back(std::move(s));
  }
  return result;
}

/// F = V sqrt(L) of a positive semi-definite matrix V L V'; eigenvalues below d eps times the largest count as 0.
inline semidefinite_root root_of(const eigen_system& s, index_t d) {
  const double tiny = static_cast<double>(d) * std::numeric_limits<double>::epsilon() *
                      std::max(0.0, s.values.empty() ? 0.0 : s.values.front());
  semidefinite_root root;
  while (root.rank < d && s.values[static_cast<std::size_t>(root.rank)] > tiny) ++root.rank;
  root.factor.resize(static_cast<std::size_t>(d * root.rank));
  for (index_t c = 0; c < root.rank; ++c)
    for (index_t i = 0; i < d; ++i)
      root.factor[static_cast<std::size_t>(i * root.rank + c)] =
          std::sqrt(s.values[static_cast<std::size_t>(c)]) * s.vectors[static_cast<std::size_t>(c * d + i)];
  return root;
}

/// Rows of the chunks of some heads, centred, with the centred position as a last column: (heads, chunks, rows, d + 1),
/// zero beyond a chunk's rows.
template <class T>
struct centred_chunks {
  thrust_kernels::row_segments<T> x;
  const double *mean, *t_mean;
  const std::int32_t* position;
  const index_t *first, *count, *segment;  ///< (chunks)
  index_t chunks, first_head;
  double* out;

  QKGEOM_HD void operator()(index_t item) const {
    const index_t width = x.dim + 1, c = item % width, r = item / width % thrust_kernels::tile_rows;
    const index_t chunk = item / (width * thrust_kernels::tile_rows) % chunks;
    const index_t head = first_head + item / (width * thrust_kernels::tile_rows * chunks), s = segment[chunk];
    double value = 0;
    if (r < count[chunk]) {
      const index_t i = first[chunk] + r;
      value = c < x.dim ? x.at(head, i, c) - mean[(head * x.segments + s) * x.dim + c]
                        : static_cast<double>(position[x.row[i]]) - t_mean[s];
    }
    out[item] = value;
  }
};

/// Products of chunks added up by segment, chunk by chunk: (heads, segments, entries).
struct add_products {
  const double* products;
  const index_t* first_chunk;  ///< (segments + 1)
  index_t segments, chunks, entries;
  double* out;
  QKGEOM_HD void operator()(index_t item) const {
    const index_t e = item % entries, s = item / entries % segments, head = item / (entries * segments);
    double sum = 0;
    for (index_t c = first_chunk[s]; c < first_chunk[s + 1]; ++c) sum += products[(head * chunks + c) * entries + e];
    out[item] = sum;
  }
};

/// Second moments by one batched f64 GEMM over chunks of rows of several heads, its products added in a fixed order.
struct scatter_by_gemm {
  const handles* use;

  template <class Machine, class T, class Each>
  void operator()(const Machine& on, const thrust_kernels::segment_means<T>& about, const Each& each) const {
    constexpr index_t rows_a_chunk = thrust_kernels::tile_rows, memory = index_t{1} << 27;  // values
    const auto& x = about.rows;
    const index_t d = x.dim, width = d + 1, entries = width * width;
    std::vector<index_t> first, count, segment, first_chunk{0};
    for (index_t s = 0; s < x.segments; ++s) {
      const index_t end = about.offset[static_cast<std::size_t>(s) + 1];
      for (index_t i = about.offset[static_cast<std::size_t>(s)]; i < end; i += rows_a_chunk) {
        first.push_back(i);
        count.push_back(std::min(rows_a_chunk, end - i));
        segment.push_back(s);
      }
      first_chunk.push_back(static_cast<index_t>(first.size()));
    }
    const auto chunks = static_cast<index_t>(first.size());
    const auto on_first = on.copy(first), on_count = on.copy(count), on_segment = on.copy(segment),
               on_chunk = on.copy(first_chunk);
    const auto t_mean = on.copy(about.t_mean);
    const index_t a_head = chunks * (rows_a_chunk * width + entries);
    const index_t together =
        std::clamp<index_t>(memory / std::max<index_t>(1, a_head), 1, std::max<index_t>(1, x.heads));
    const auto centred = on.template make<double>(together * chunks * rows_a_chunk * width);
    const auto products = on.template make<double>(together * chunks * entries);
    const auto sums = on.template make<double>(together * x.segments * entries);
    for (index_t h = 0; h < x.heads; h += together) {
      const index_t heads = std::min(together, x.heads - h), batch = heads * chunks;
      on.each(batch * rows_a_chunk * width,
              centred_chunks<T>{x, about.mean, t_mean.data(), about.position, on_first.data(), on_count.data(),
                                on_segment.data(), chunks, h, centred.data()});
      const double one = 1, zero = 0;
      if (batch > 0)
        check(cublasDgemmStridedBatched(use->blas(), CUBLAS_OP_N, CUBLAS_OP_T, static_cast<int>(width),
                                        static_cast<int>(width), static_cast<int>(rows_a_chunk), &one, centred.data(),
                                        static_cast<int>(width), rows_a_chunk * width, centred.data(),
                                        static_cast<int>(width), rows_a_chunk * width, &zero, products.data(),
                                        static_cast<int>(width), entries, static_cast<int>(batch)),
              "cublasDgemmStridedBatched");
      on.each(heads * x.segments * entries,
              add_products{products.data(), on_chunk.data(), x.segments, chunks, entries, sums.data()});
      hand_out(sums.host(heads * x.segments * entries), h, heads, x.segments, d, each);
    }
  }

 private:
  template <class Each>
  static void hand_out(const std::vector<double>& sums, index_t first_head, index_t heads, index_t segments, index_t d,
                       const Each& each) {
    const index_t width = d + 1;
    std::vector<double> xx(static_cast<std::size_t>(segments * d * d)), xt(static_cast<std::size_t>(segments * d));
    for (index_t h = 0; h < heads; ++h) {
      for (index_t s = 0; s < segments; ++s)
        for (index_t i = 0; i < d; ++i) {
          const auto row = sums.begin() + ((h * segments + s) * width + i) * width;
          std::copy(row, row + d, xx.begin() + (s * d + i) * d);
          xt[static_cast<std::size_t>(s * d + i)] = row[d];
        }
      each(first_head + h, xx, xt);
    }
  }
};

}  // namespace qkgeom::cuda_kernels
