// SPDX-License-Identifier: MIT
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <type_traits>

#include "capture/forward/blockwise_attention.hpp"
#include "capture/forward/device/cuda_rows.cuh"
#include "capture/forward/layer_weights.hpp"
#include "capture/forward/linear_map.hpp"
#include "qkgeom/backend/cuda/resources.cuh"
#include "qkgeom/core/buffer.hpp"

#if defined(QKGEOM_CUDNN)
#include <iostream>
#include <utility>

#include "capture/forward/device/cudnn_attention.hpp"
#endif

namespace qkgeom {

/// Page-locked memory for weights on their way to the device.
class pinned_resource : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t) override { return memory_.allocate(bytes); }
  void do_deallocate(void* p, std::size_t, std::size_t) override { memory_.release(p); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  cuda_kernels::pinned_memory memory_;
};

/// A CUDA device for a `decoder`: work runs on one stream, copies of weights on another.
class cuda_device : public serial_device {
 public:
  using memory_type = cuda_kernels::device_memory;

  explicit cuda_device(int device)
      : device_(select(device)),
        work_(cuda_kernels::make_stream()),
        copies_(cuda_kernels::make_stream()),
        memory_(work_.get()),
        weight_memory_(copies_.get()),
        handles_(work_.get()) {
    // Partial sums stay in f32 where a product is split.
    cuda_kernels::check(cublasSetMathMode(handles_.blas(), CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
                        "cublasSetMathMode");
  }

  using event = cuda_kernels::owned_event;

  cudaStream_t stream() const { return work_.get(); }
  const memory_type& memory() const { return memory_; }
  const memory_type& weight_memory() const { return weight_memory_; }
  /// Returns how weights are read: into page-locked memory.
  weight_reading reading(bool to_bf16) {
    return {to_bf16, to_bf16 ? weight_format::bf16_rows : weight_format::f32, &staging_};
  }
  event make_event() const { return cuda_kernels::make_event(cudaEventDisableTiming); }
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
    if (n > 0) launch_rows(n, kernel, work_.get());
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
  /// Computes the attention by cuDNN; returns false where cuDNN has no kernel or fails, and writes its reason to
  /// std::clog once. Products compute scores with a cap, sinks, and a single query: a plan for one query is made for
  /// one number of keys, and cuDNN's cache returns a plan made for another.
  bool attend(const attention_call<bf16>& call) {
    if (call.rows == 1 || call.cap != 0 || call.sinks) return false;
    if (!attention_)
      attention_ = std::make_unique<cudnn_attention>(
          work_.get(), [this](void* to, const void* from, std::size_t bytes) { memory_.from_host(to, from, bytes); });
    if (const auto bytes = attention_->working_bytes(call)) {
      attention_memory_.reserve(*bytes);
      if ((*attention_)(call, attention_memory_.data())) return true;
    }
    if (!std::exchange(said_why_not_, true))
      std::clog << "qkgeom: cuDNN does not compute this attention, which goes through cuBLAS, slower: "
                << attention_->why_not(call) << '\n';
    return false;
  }
#endif

 private:
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
  pinned_resource staging_;
  cuda_kernels::owned_stream work_, copies_;
  memory_type memory_, weight_memory_;
  cuda_kernels::handles handles_;
#if defined(QKGEOM_CUDNN)
  buffer<std::byte, memory_type> attention_memory_{memory_, 0};
  std::unique_ptr<cudnn_attention> attention_;
  bool said_why_not_ = false;
#endif
};

}  // namespace qkgeom
