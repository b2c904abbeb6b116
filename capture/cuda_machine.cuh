// SPDX-License-Identifier: MIT
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <memory>
#include <memory_resource>
#include <type_traits>

#include "capture/device_attention.hpp"
#include "capture/device_kernels.hpp"
#include "qkgeom/backend/cuda_resources.cuh"

#if defined(QKGEOM_CUDNN)
#include "capture/cudnn_attention.hpp"
#endif

namespace qkgeom {

/// The threads of a block share a row.
class block_team {
 public:
  static constexpr int threads = 256, warp = 32;

  /// One warp of it.
  class warp_team {
   public:
    QKGEOM_HD int rank() const { return thread() % warp; }
    QKGEOM_HD int size() const { return warp; }
    QKGEOM_HD float sum(float x) const {
#if defined(__CUDA_ARCH__)
      for (int step = warp / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
#endif
      return x;
    }
  };

  /// `partial` holds a float a warp, in shared memory.
  QKGEOM_HD explicit block_team(float* partial) : partial_(partial) {}
  QKGEOM_HD int rank() const { return thread(); }
  QKGEOM_HD int size() const { return threads; }
  QKGEOM_HD void sync() const {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }
  QKGEOM_HD float sum(float x) const {
    return reduce(x, [](float a, float b) { return a + b; });
  }
  QKGEOM_HD float max(float x) const {
    return reduce(x, [](float a, float b) { return a > b ? a : b; });
  }
  QKGEOM_HD int group() const { return thread() / warp; }
  QKGEOM_HD int groups() const { return threads / warp; }
  QKGEOM_HD warp_team lanes() const { return {}; }

 private:
  QKGEOM_HD static int thread() {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(threadIdx.x);
#else
    return 0;
#endif
  }
  /// The same bits in every thread: lanes by halves, then the warps in their order.
  template <class F>
  QKGEOM_HD float reduce(float x, const F& f) const {
#if defined(__CUDA_ARCH__)
    for (int step = warp / 2; step > 0; step /= 2) x = f(x, __shfl_xor_sync(0xffffffffu, x, step));
    __syncthreads();  // what was reduced before has been read
    if (thread() % warp == 0) partial_[thread() / warp] = x;
    __syncthreads();
    x = partial_[0];
    for (int w = 1; w < threads / warp; ++w) x = f(x, partial_[w]);
#endif
    return x;
  }

  float* partial_;
};

template <class Kernel>
__global__ void __launch_bounds__(block_team::threads) row_kernel(const Kernel kernel) {
  __shared__ float partial[block_team::threads / block_team::warp];
  kernel(block_team(partial), static_cast<index_t>(blockIdx.x));
}

/// Memory of the host that a device copies from by itself.
class pinned_memory : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t) override {
    void* p = nullptr;
    cuda_kernels::check(cudaHostAlloc(&p, bytes, cudaHostAllocDefault), "cudaHostAlloc");
    return p;
  }
  void do_deallocate(void* p, std::size_t, std::size_t) override { cudaFreeHost(p); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
};

/// A CUDA device as the machine of a `device_decoder`: work on one stream, copies of weights on another.
class cuda_machine {
 public:
  using memory_type = cuda_kernels::device_memory;

  explicit cuda_machine(int device)
      : device_(select(device)),
        work_(),
        copies_(),
        memory_(work_.get()),
        weight_memory_(copies_.get()),
        handles_(work_.get()) {
    // Partial sums stay in f32, also where a product is parted.
    cuda_kernels::check(cublasSetMathMode(handles_.blas(), CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
                        "cublasSetMathMode");
  }

  class event {
   public:
    event() {
      cudaEvent_t made = nullptr;
      cuda_kernels::check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "cudaEventCreate");
      event_.reset(made, cudaEventDestroy);
    }
    cudaEvent_t get() const { return event_.get(); }

   private:
    std::shared_ptr<CUevent_st> event_;
  };

  cudaStream_t stream() const { return work_.get(); }
  const memory_type& memory() const { return memory_; }
  const memory_type& weight_memory() const { return weight_memory_; }
  std::pmr::memory_resource* staging() { return &staging_; }
  event make_event() const { return {}; }
  /// Makes the calling thread work on this device.
  void enter() const { select(device_); }
  void host_waits(const event& e) const { cuda_kernels::check(cudaEventSynchronize(e.get()), "waiting for copies"); }
  void copies_wait(const event& e) const { wait(copies_.get(), e); }
  void record_copies(const event& e) const { record(copies_.get(), e); }
  void work_waits(const event& e) const { wait(work_.get(), e); }
  void record_work(const event& e) const { record(work_.get(), e); }
  void copy_weights(void* to, const void* from, std::size_t bytes) const {
    cuda_kernels::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, copies_.get()), "a copy of weights");
  }

  template <class Kernel>
  void rows(index_t n, const Kernel& kernel) const {
    if (n == 0) return;
    row_kernel<<<static_cast<unsigned>(n), block_team::threads, 0, work_.get()>>>(kernel);
    cuda_kernels::check(cudaGetLastError(), "a kernel of the forward pass");
  }

  template <class T, class Out>
  void multiply(const product_shape& s, const T* a, const T* b, Out* c) const {
    const float one = 1, sum = s.adds ? 1.0f : 0.0f;
    const column_major_product p(s);
    const auto n = [](index_t i) { return static_cast<int>(i); };
    cuda_kernels::check(
        cublasGemmStridedBatchedEx(handles_.blas(), p.transposes_a ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, n(p.m),
                                   n(p.n), n(p.k), &one, b, type_of<T>(), n(p.lda), p.stride_a, a, type_of<T>(),
                                   n(p.ldb), p.stride_b, &sum, c, type_of<Out>(), n(p.ldc), p.stride_c, n(s.batch),
                                   CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
  }

#if defined(QKGEOM_CUDNN)
  /// By cuDNN, where it has a kernel.
  bool attend(const attention_call<bf16>& call) {
    if (!attention_) attention_ = std::make_unique<cudnn_attention>(work_.get());
    return (*attention_)(call);
  }
#endif

 private:
  class stream_owner {
   public:
    stream_owner() {
      cuda_kernels::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    }
    stream_owner(const stream_owner&) = delete;
    ~stream_owner() { cudaStreamDestroy(stream_); }
    cudaStream_t get() const { return stream_; }

   private:
    cudaStream_t stream_ = nullptr;
  };

  static int select(int device) {
    cuda_kernels::check(cudaSetDevice(device), "cudaSetDevice");
    return device;
  }
  template <class T>
  static constexpr cudaDataType_t type_of() {
    return std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_16BF;
  }
  static void wait(cudaStream_t stream, const event& e) {
    cuda_kernels::check(cudaStreamWaitEvent(stream, e.get()), "cudaStreamWaitEvent");
  }
  static void record(cudaStream_t stream, const event& e) {
    cuda_kernels::check(cudaEventRecord(e.get(), stream), "cudaEventRecord");
  }

  int device_;
  pinned_memory staging_;
  stream_owner work_, copies_;
  memory_type memory_, weight_memory_;
  cuda_kernels::handles handles_;
#if defined(QKGEOM_CUDNN)
  std::unique_ptr<cudnn_attention> attention_;
#endif
};

}  // namespace qkgeom
