// SPDX-License-Identifier: MIT
#pragma once

#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "qkgeom/backend/cuda_context.cuh"
#include "qkgeom/core/random.hpp"

/// Measured rates of the card, with which those of our kernels are compared.
namespace qkgeom::bench {

using cuda_kernels::check;

/// Seconds between two points of a stream.
class stopwatch {
 public:
  explicit stopwatch(cudaStream_t stream) : stream_(stream) {}
  template <class Work>
  double seconds_of(Work&& work) const {
    check(cudaEventRecord(begin_.get(), stream_), "cudaEventRecord");
    work();
    check(cudaEventRecord(end_.get(), stream_), "cudaEventRecord");
    check(cudaEventSynchronize(end_.get()), "waiting for the end");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return 1e-3 * static_cast<double>(ms);
  }
  /// Shortest of `n` calls after one that warms up.
  template <class Work>
  double best_of(int n, Work&& work) const {
    work();
    double best = seconds_of(work);
    for (int i = 1; i < n; ++i) best = std::min(best, seconds_of(work));
    return best;
  }

 private:
  cudaStream_t stream_;
  cuda_kernels::owned_event begin_ = cuda_kernels::make_event(), end_ = cuda_kernels::make_event();
};

using cuda_kernels::pinned_memory;

/// Divisor of sizes. Above 1, rates mean nothing.
inline index_t shrunk_by = 1;
inline index_t sized(index_t n, index_t least = 1) { return std::max(least, n / shrunk_by); }

/// Roughly normal values: constant ones would let a GEMM run faster than real data do.
template <class T>
struct random_values {
  T* x;
  std::uint64_t seed;

  QKGEOM_HD void operator()(index_t i) const {
    const auto b = random_stream{.seed = seed}.bits(static_cast<std::uint64_t>(i));
    float sum = 0;
    for (int k = 0; k < 4; ++k) sum += static_cast<float>(b[k]) * 0x1p-32f - 0.5f;
    const float value = 1.7f * sum + 0.3f;
    if constexpr (std::is_same_v<T, bf16>)
      x[i] = bf16::round(value);
    else
      x[i] = static_cast<T>(value);
  }
};
/// On the default stream.
template <class T>
void fill(T* x, index_t n, std::uint64_t seed) {
  thrust::for_each_n(thrust::cuda::par.on(nullptr), thrust::counting_iterator<index_t>(0), n,
                     random_values<T>{x, seed});
}

/// The pair kernel's epilogue alone, on values in registers: `rounds` rows of `columns` pairs per thread.
struct epilogue_alone {
  static constexpr int threads = 256, blocks_per_processor = 4, columns = 16;
  int rounds;
  float* to;

  QKGEOM_HD index_t shared_bytes() const { return 0; }
  template <class Team>
  QKGEOM_HD void operator()(const Team& team, index_t block, unsigned char*) const {
    team.each([&](int t) {
      float norm[columns], score[columns], gram[columns];
      const float mine = static_cast<float>(t) * (1.0f / threads);
      QKGEOM_UNROLL
      for (int c = 0; c < columns; ++c) {
        norm[c] = 1.0f + 0.05f * static_cast<float>(c) + 0.1f * mine;
        score[c] = mine - 0.1f * static_cast<float>(c);
        gram[c] = 0.2f * mine + 0.01f * static_cast<float>(c);
      }
      float sum = 0;
      QKGEOM_ROLLED
      for (int r = 0; r < rounds; ++r) {
        const float row = static_cast<float>(r & 1023) * 0x1p-10f;
        QKGEOM_UNROLL
        for (int c = 0; c < columns; ++c) {
          sum += tile::plasticity(row - score[c], std::fma(-2.0f, gram[c], 1.0f + row + norm[c]));
        }
      }
      to[block * threads + t] = sum;
    });
  }
};

struct gpu_ceilings {
  double gemm_bf16 = 0, gemm_f64 = 0;  ///< FLOP/s of cuBLAS
  double epilogue = 0;                 ///< pairs/s of `1 - erf^2` alone
  double copy = 0;                     ///< bytes read plus bytes written per second, on the device
  double pinned = 0, pageable = 0;     ///< bytes per second from page-locked and from pageable host memory
};

namespace detail {

using device_memory = cuda_kernels::device_memory;
template <class T, class Memory = device_memory>
using buffer = qkgeom::buffer<T, Memory>;

template <class T>
double gemm_rate(const device_memory& memory, const cuda_kernels::handles& use, const stopwatch& watch, index_t n) {
  constexpr bool wide = std::is_same_v<T, double>;
  using result = std::conditional_t<wide, double, float>;
  const buffer<T> a(memory, n * n), b(memory, n * n);
  const buffer<result> c(memory, n * n);
  fill(a.data(), n * n, 3);
  fill(b.data(), n * n, 4);
  const result one = 1, zero = 0;
  const auto size = static_cast<int>(n);
  constexpr auto in = wide ? CUDA_R_64F : CUDA_R_16BF, out = wide ? CUDA_R_64F : CUDA_R_32F;
  const double s = watch.best_of(10, [&] {
    check(cublasGemmEx(use.blas(), CUBLAS_OP_T, CUBLAS_OP_N, size, size, size, &one, a.data(), in, size, b.data(), in,
                       size, &zero, c.data(), out, size, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                       CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
  });
  const auto x = static_cast<double>(n);
  return 2 * x * x * x / s;
}

inline double epilogue_rate(const device_memory& memory, const stopwatch& watch) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  const index_t blocks = properties.multiProcessorCount * 32;
  const int rounds = static_cast<int>(sized(4096));
  const buffer<float> sums(memory, blocks * epilogue_alone::threads);
  const double s = watch.best_of(5, [&] {
    cuda_kernels::launch_program(epilogue_alone{rounds, sums.data()}, blocks, memory.stream());
  });
  return static_cast<double>(rounds) * epilogue_alone::columns * static_cast<double>(sums.size()) / s;
}

template <class Memory>
double from_host_rate(const device_memory& memory, const stopwatch& watch) {
  const index_t bytes = sized(index_t{1} << 28);
  const Memory host;
  const buffer<char, Memory> from(host, bytes);
  std::fill_n(from.data(), bytes, static_cast<char>(1));
  const buffer<char> to(memory, bytes);
  return static_cast<double>(bytes) /
         watch.best_of(5, [&] { memory.from_host(to.data(), from.data(), static_cast<std::size_t>(bytes)); });
}

}  // namespace detail

/// Measured at the first call (two seconds or so), then remembered. On the default stream.
inline const gpu_ceilings& measured_gpu_ceilings() {
  static const gpu_ceilings found = [] {
    const detail::device_memory memory(nullptr);
    const cuda_kernels::handles use(nullptr);
    const stopwatch watch(nullptr);
    gpu_ceilings c;
    c.gemm_bf16 = detail::gemm_rate<bf16>(memory, use, watch, sized(8192));
    c.gemm_f64 = detail::gemm_rate<double>(memory, use, watch, sized(4096));
    c.epilogue = detail::epilogue_rate(memory, watch);
    const index_t bytes = sized(index_t{1} << 31);
    const detail::buffer<char> a(memory, bytes), b(memory, bytes);
    c.copy = 2 * static_cast<double>(bytes) / watch.best_of(5, [&] {
      check(cudaMemcpyAsync(b.data(), a.data(), static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, nullptr),
            "a copy on the device");
    });
    c.pinned = detail::from_host_rate<pinned_memory>(memory, watch);
    c.pageable = detail::from_host_rate<cpu_memory>(memory, watch);
    return c;
  }();
  return found;
}

}  // namespace qkgeom::bench
