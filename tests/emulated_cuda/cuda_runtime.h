// SPDX-License-Identifier: MIT
// CUDA's runtime, as far as this project uses it, emulated by the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/emulated_cuda/device.hpp"

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaMemAllocationType { cudaMemAllocationTypePinned = 1 };
enum cudaMemLocationType { cudaMemLocationTypeDevice = 1 };
enum cudaMemPoolAttr { cudaMemPoolReuseAllowInternalDependencies, cudaMemPoolAttrReleaseThreshold };
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2,
                          cudaHostAllocDefault = 0;

struct CUstream_st {
  std::shared_ptr<qkgeom::emulated::stream> is;
};
struct CUevent_st {
  qkgeom::emulated::point recorded;
};
struct CUmemPoolHandle_st : qkgeom::emulated::pool {};
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaMemPool_t = CUmemPoolHandle_st*;
struct cudaMemPoolProps {
  cudaMemAllocationType allocType;
  struct {
    cudaMemLocationType type;
    int id;
  } location;
};

namespace qkgeom::emulated {

inline const std::shared_ptr<stream>& of(cudaStream_t s) {
  static const std::shared_ptr<stream> by_default;
  return s ? s->is : by_default;
}

}  // namespace qkgeom::emulated

inline const char* cudaGetErrorString(cudaError_t status) {
  return status == cudaSuccess ? "no error" : status == cudaErrorInvalidValue ? "invalid argument" : "out of memory";
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

inline cudaError_t cudaGetDeviceCount(int* n) { return *n = 1, cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = qkgeom::emulated::device::total_bytes;
  *free = *total - qkgeom::emulated::device::the().held();
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidValue; }
struct cudaDeviceProp {
  char name[256];
  int multiProcessorCount;
};
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* of, int) {
  *of = {"a device that the host emulates", 2};
  return cudaSuccess;
}
enum cudaDeviceAttr { cudaDevAttrPageableMemoryAccessUsesHostPageTables };
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  return *value = qkgeom::emulated::device::the().reads_pageable_memory(), cudaSuccess;
}
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice };
struct cudaPointerAttributes {
  cudaMemoryType type;
};
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* of, const void* p) {
  const auto& device = qkgeom::emulated::device::the();
  of->type = device.is_inside(p)   ? cudaMemoryTypeDevice
             : device.is_pinned(p) ? cudaMemoryTypeHost
                                   : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return qkgeom::emulated::device::the().wait_for_all(), cudaSuccess; }

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  *s = new CUstream_st{qkgeom::emulated::device::the().make_stream(flags != cudaStreamNonBlocking)};
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithFlags(s, 0); }
inline cudaError_t cudaStreamDestroy(cudaStream_t s) {
  qkgeom::emulated::device::the().end(s->is);
  delete s;
  return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  auto& device = qkgeom::emulated::device::the();
  device.wait(device.here(qkgeom::emulated::of(s)));
  return cudaSuccess;
}

inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { return *e = new CUevent_st, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  e->recorded = qkgeom::emulated::device::the().here(qkgeom::emulated::of(s));
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  if (e->recorded.of) qkgeom::emulated::device::the().wait(e->recorded);
  return cudaSuccess;
}
/// All work takes a millisecond.
inline cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) { return *ms = 1, cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e) {
  auto& device = qkgeom::emulated::device::the();
  if (e->recorded.of) device.give(qkgeom::emulated::of(s), device.waiting_for(e->recorded));
  return cudaSuccess;
}

inline cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  qkgeom::emulated::device::the().add_pool(*pool = new CUmemPoolHandle_st);
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  qkgeom::emulated::device::the().remove_pool(pool);
  delete pool;
  return cudaSuccess;
}
inline cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes) {
  pool->kept = std::min(pool->kept, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMallocFromPoolAsync(void** p, std::size_t bytes, cudaMemPool_t pool, cudaStream_t) {
  *p = qkgeom::emulated::device::the().allocate(bytes, pool);
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFreeAsync(void* p, cudaStream_t s) {
  auto& device = qkgeom::emulated::device::the();
  device.give(qkgeom::emulated::of(s), [&device, p] { device.release(p); });
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMalloc(T** p, std::size_t bytes) {
  *p = static_cast<T*>(qkgeom::emulated::device::the().allocate(bytes));
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFree(void* p) {
  cudaDeviceSynchronize();
  if (p) qkgeom::emulated::device::the().release(p);
  return cudaSuccess;
}
template <class T>
cudaError_t cudaHostAlloc(T** p, std::size_t bytes, unsigned) {
  *p = static_cast<T*>(qkgeom::emulated::device::the().allocate_pinned(bytes));
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFreeHost(void* p) { return qkgeom::emulated::device::the().release_pinned(p), cudaSuccess; }

/// Copies from pageable host memory take what is there at the call, unless the device reads such memory itself.
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t s) {
  auto& device = qkgeom::emulated::device::the();
  const bool to_device = kind != cudaMemcpyDeviceToHost, from_device = kind != cudaMemcpyHostToDevice;
  if (bytes == 0) return cudaSuccess;
  if (to_device ? !device.holds(to, bytes) : device.is_inside(to)) return cudaErrorInvalidValue;
  if (from_device ? !device.holds(from, bytes) : device.is_inside(from)) return cudaErrorInvalidValue;
  if (from_device || device.is_pinned(from) || device.reads_pageable_memory()) {
    device.give(qkgeom::emulated::of(s), [=] { std::memcpy(to, from, bytes); });
  } else {
    const auto* const first = static_cast<const char*>(from);
    device.give(qkgeom::emulated::of(s), [to, staged = std::vector<char>(first, first + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
  }
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t status = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return status == cudaSuccess ? cudaStreamSynchronize(nullptr) : status;
}
