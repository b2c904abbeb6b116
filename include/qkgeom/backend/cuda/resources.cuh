// SPDX-License-Identifier: MIT
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>
#include <thrust/system/cuda/execution_policy.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>

#include "qkgeom/core/buffer.hpp"
#include "qkgeom/core/error.hpp"

/// CUDA handles, memory and streams with owners.
namespace qkgeom::cuda_kernels {

/// Throws `error` unless a call succeeded; the error names the call, `what`.
inline void check(cudaError_t status, const char* what) {
  require(status == cudaSuccess, "CUDA: ", what, " failed: ", cudaGetErrorString(status));
}
inline void check(cublasStatus_t status, const char* what) {
  require(status == CUBLAS_STATUS_SUCCESS, "cuBLAS: ", what, " failed: ", cublasGetStatusString(status));
}
inline void check(cusolverStatus_t status, const char* what) {
  require(status == CUSOLVER_STATUS_SUCCESS, "cuSOLVER: ", what, " failed with status ", static_cast<int>(status));
}

/// Throws `error` where there is no CUDA device.
inline void require_device() {
  int devices = 0;
  require(cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0, "there is no CUDA device on this machine");
}

template <auto Destroy>
struct destroyer {
  template <class T>
  void operator()(T* handle) const {
    Destroy(handle);
  }
};
/// A handle of CUDA or of its libraries, destroyed by Destroy(handle).
template <class Handle, auto Destroy>
using owned = std::unique_ptr<std::remove_pointer_t<Handle>, destroyer<Destroy>>;

using owned_stream = owned<cudaStream_t, cudaStreamDestroy>;
using owned_event = owned<cudaEvent_t, cudaEventDestroy>;

/// Returns the handle that `make(&handle)` sets. Throws `error`, which names `what`, if it fails.
template <class Owned, class Make>
Owned make_owned(const char* what, const Make& make) {
  typename Owned::pointer handle = nullptr;
  check(make(&handle), what);
  return Owned(handle);
}

/// Makes a stream that does not synchronise with the default one.
inline owned_stream make_stream() {
  return make_owned<owned_stream>("cudaStreamCreate", [](cudaStream_t* stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
  });
}
inline owned_event make_event(unsigned flags = cudaEventDefault) {
  return make_owned<owned_event>("cudaEventCreate",
                                 [&](cudaEvent_t* event) { return cudaEventCreateWithFlags(event, flags); });
}

/// A stream-ordered memory pool on a device. It keeps freed memory until it is destroyed or trimmed. No stream waits
/// for the memory of another; the pool grows instead.
class memory_pool {
 public:
  explicit memory_pool(int device) {
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    props.location.id = device;
    pool_ = make_owned<owned_pool>("cudaMemPoolCreate",
                                   [&](cudaMemPool_t* pool) { return cudaMemPoolCreate(pool, &props); });
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    check(cudaMemPoolSetAttribute(get(), cudaMemPoolAttrReleaseThreshold, &keep), "cudaMemPoolSetAttribute");
    int waits = 0;
    check(cudaMemPoolSetAttribute(get(), cudaMemPoolReuseAllowInternalDependencies, &waits), "cudaMemPoolSetAttribute");
    int direct = 0;
    check(cudaDeviceGetAttribute(&direct, cudaDevAttrPageableMemoryAccessUsesHostPageTables, device),
          "cudaDeviceGetAttribute");
    reads_pageable_memory_ = direct != 0;
  }

  /// Returns the pool of the current device, shared by all streams of the program: one uses what another has freed.
  static std::shared_ptr<memory_pool> of_device() {
    static std::mutex one_at_a_time;
    static std::map<int, std::weak_ptr<memory_pool>> pools;
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    const std::lock_guard lock(one_at_a_time);
    auto pool = pools[device].lock();
    if (!pool) pools[device] = pool = std::make_shared<memory_pool>(device);
    return pool;
  }

  cudaMemPool_t get() const { return pool_.get(); }
  /// Waits for the device and returns unused memory to it.
  void trim() const {
    check(cudaDeviceSynchronize(), "waiting for the device");
    check(cudaMemPoolTrimTo(get(), 0), "cudaMemPoolTrimTo");
  }
  /// Returns whether the device reads host memory that is not page-locked by the host's page tables, so that a copy may
  /// read it after the call. Otherwise the driver stages this memory before the call returns.
  bool reads_pageable_memory() const { return reads_pageable_memory_; }

 private:
  bool reads_pageable_memory_ = false;
  using owned_pool = owned<cudaMemPool_t, cudaMemPoolDestroy>;
  owned_pool pool_;
};

/// Device memory of one stream, from a pool. A copy to the host waits for the stream. A copy from the host waits only
/// where the device might read the source late (see reads_pageable_memory), so the caller may change the source after
/// the call; page-locked sources must stay as they are until the stream has read them.
class device_memory {
 public:
  static constexpr memory_space space = memory_space::device;

  explicit device_memory(cudaStream_t stream) : stream_(stream), pool_(memory_pool::of_device()) {}

  /// Allocates in the order of the stream; `release` frees in it.
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
    if (!pool_->reads_pageable_memory()) return;
    cudaPointerAttributes source;
    check(cudaPointerGetAttributes(&source, from), "cudaPointerGetAttributes");
    if (source.type == cudaMemoryTypeUnregistered) check(cudaStreamSynchronize(stream_), "waiting for the stream");
  }
  cudaStream_t stream() const { return stream_; }
  const memory_pool& pool() const { return *pool_; }

 private:
  cudaStream_t stream_;
  std::shared_ptr<memory_pool> pool_;
};

/// Page-locked memory of the host: copies between it and a device run at full speed.
struct pinned_memory {
  static constexpr memory_space space = memory_space::host;
  void* allocate(std::size_t bytes) const {
    void* p = nullptr;
    check(cudaHostAlloc(&p, bytes, cudaHostAllocDefault), "cudaHostAlloc");
    return p;
  }
  void release(void* p) const { cudaFreeHost(p); }
};

/// Thrust's allocator of temporary memory from the pool of `memory`.
struct thrust_allocator {
  using value_type = char;
  device_memory memory;
  char* allocate(std::ptrdiff_t bytes) { return static_cast<char*>(memory.allocate(static_cast<std::size_t>(bytes))); }
  void deallocate(char* p, std::size_t) { memory.release(p); }
};
/// Thrust's policy for one stream with `thrust_allocator`; algorithms do not wait for the stream.
using policy = std::remove_cvref_t<
    decltype(thrust::cuda::par_nosync(std::declval<thrust_allocator&>()).on(std::declval<cudaStream_t>()))>;

/// cuBLAS and cuSOLVER handles on one stream.
class handles {
 public:
  explicit handles(cudaStream_t stream)
      : blas_(make_owned<decltype(blas_)>("cublasCreate", cublasCreate)),
        solver_(make_owned<decltype(solver_)>("cusolverDnCreate", cusolverDnCreate)),
        params_(make_owned<decltype(params_)>("cusolverDnCreateParams", cusolverDnCreateParams)) {
    check(cublasSetStream(blas(), stream), "cublasSetStream");
    check(cusolverDnSetStream(solver(), stream), "cusolverDnSetStream");
  }
  cublasHandle_t blas() const { return blas_.get(); }
  cusolverDnHandle_t solver() const { return solver_.get(); }
  cusolverDnParams_t params() const { return params_.get(); }

 private:
  owned<cublasHandle_t, cublasDestroy> blas_;
  owned<cusolverDnHandle_t, cusolverDnDestroy> solver_;
  owned<cusolverDnParams_t, cusolverDnDestroyParams> params_;
};

}  // namespace qkgeom::cuda_kernels
