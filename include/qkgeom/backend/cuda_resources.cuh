// SPDX-License-Identifier: MIT
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>
#include <thrust/system/cuda/execution_policy.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

#include "qkgeom/core/buffer.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom::cuda_kernels {

inline void check(cudaError_t status, const char* what) {
  require(status == cudaSuccess, "CUDA: ", what, " failed: ", cudaGetErrorString(status));
}
inline void check(cublasStatus_t status, const char* what) {
  require(status == CUBLAS_STATUS_SUCCESS, "cuBLAS: ", what, " failed: ", cublasGetStatusString(status));
}
inline void check(cusolverStatus_t status, const char* what) {
  require(status == CUSOLVER_STATUS_SUCCESS, "cuSOLVER: ", what, " failed with status ", static_cast<int>(status));
}

/// A stream-ordered pool of its own on the current device, which keeps what it was given until it ends.
class memory_pool {
 public:
  memory_pool() {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = device;
    check(cudaMemPoolCreate(&pool_, &props), "cudaMemPoolCreate");
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep), "cudaMemPoolSetAttribute");
  }
  memory_pool(const memory_pool&) = delete;
  memory_pool& operator=(const memory_pool&) = delete;
  ~memory_pool() { cudaMemPoolDestroy(pool_); }
  cudaMemPool_t get() const { return pool_; }

 private:
  cudaMemPool_t pool_ = nullptr;
};

/// Device memory of one stream, from a pool. Copies to the host wait for the stream; nothing else does.
class device_memory {
 public:
  static constexpr memory_space space = memory_space::device;

  explicit device_memory(cudaStream_t stream) : stream_(stream), pool_(std::make_shared<memory_pool>()) {}

  void* allocate(std::size_t bytes) const {
    void* p = nullptr;
    check(cudaMallocFromPoolAsync(&p, bytes, pool_->get(), stream_), "cudaMallocFromPoolAsync");
    return p;
  }
  void release(void* p) const { cudaFreeAsync(p, stream_); }
  void to_host(void* to, const void* from, std::size_t bytes) const {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "a copy to the host");
    check(cudaStreamSynchronize(stream_), "waiting for the stream");
  }
  void from_host(void* to, const void* from, std::size_t bytes) const {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "a copy to the device");
  }
  cudaStream_t stream() const { return stream_; }

 private:
  cudaStream_t stream_;
  std::shared_ptr<memory_pool> pool_;
};

/// What Thrust's algorithms allocate, from the same pool.
struct thrust_allocator {
  using value_type = char;
  device_memory memory;
  char* allocate(std::ptrdiff_t n) { return static_cast<char*>(memory.allocate(static_cast<std::size_t>(n))); }
  void deallocate(char* p, std::size_t) { memory.release(p); }
};
using policy = std::remove_cvref_t<
    decltype(thrust::cuda::par_nosync(std::declval<thrust_allocator&>()).on(std::declval<cudaStream_t>()))>;

/// cuBLAS and cuSOLVER on one stream.
class handles {
 public:
  explicit handles(cudaStream_t stream) {
    check(cublasCreate(&blas_), "cublasCreate");
    check(cublasSetStream(blas_, stream), "cublasSetStream");
    check(cusolverDnCreate(&solver_), "cusolverDnCreate");
    check(cusolverDnSetStream(solver_, stream), "cusolverDnSetStream");
    check(cusolverDnCreateParams(&params_), "cusolverDnCreateParams");
  }
  handles(const handles&) = delete;
  handles& operator=(const handles&) = delete;
  ~handles() {
    cusolverDnDestroyParams(params_);
    cusolverDnDestroy(solver_);
    cublasDestroy(blas_);
  }
  cublasHandle_t blas() const { return blas_; }
  cusolverDnHandle_t solver() const { return solver_; }
  cusolverDnParams_t params() const { return params_; }

 private:
  cublasHandle_t blas_ = nullptr;
  cusolverDnHandle_t solver_ = nullptr;
  cusolverDnParams_t params_ = nullptr;
};

}  // namespace qkgeom::cuda_kernels
