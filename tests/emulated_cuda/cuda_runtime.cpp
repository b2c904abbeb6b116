// SPDX-License-Identifier: MIT
#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace qkgeom::emulated {

const std::shared_ptr<stream>& of(cudaStream_t s) {
  static const std::shared_ptr<stream> by_default;
  return s ? s->is : by_default;
}

}  // namespace qkgeom::emulated

const char* cudaGetErrorString(cudaError_t status) {
  return status == cudaSuccess ? "no error" : status == cudaErrorInvalidValue ? "invalid argument" : "out of memory";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* n) { return *n = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = qkgeom::emulated::device::total_bytes;
  *free = *total - qkgeom::emulated::device::the().held();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidValue; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* of, int) {
  *of = {"a device that the host emulates", 2};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  return *value = qkgeom::emulated::device::the().reads_pageable_memory(), cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* of, const void* p) {
  const auto& device = qkgeom::emulated::device::the();
  of->type = device.is_inside(p)   ? cudaMemoryTypeDevice
             : device.is_pinned(p) ? cudaMemoryTypeHost
                                   : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return qkgeom::emulated::device::the().wait_for_all(), cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  *s = new CUstream_st{qkgeom::emulated::device::the().make_stream(flags != cudaStreamNonBlocking)};
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithFlags(s, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  qkgeom::emulated::device::the().end(s->is);
  delete s;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  auto& device = qkgeom::emulated::device::the();
  device.wait(device.here(qkgeom::emulated::of(s)));
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) { return *e = new CUevent_st, cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  e->recorded = qkgeom::emulated::device::the().here(qkgeom::emulated::of(s));
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  if (e->recorded.of) qkgeom::emulated::device::the().wait(e->recorded);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) { return *ms = 1, cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e) {
  auto& device = qkgeom::emulated::device::the();
  if (e->recorded.of) device.give(qkgeom::emulated::of(s), device.waiting_for(e->recorded));
  return cudaSuccess;
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  qkgeom::emulated::device::the().add_pool(*pool = new CUmemPoolHandle_st);
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  qkgeom::emulated::device::the().remove_pool(pool);
  delete pool;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes) {
  pool->kept = std::min(pool->kept, bytes);
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** p, std::size_t bytes, cudaMemPool_t pool, cudaStream_t) {
  *p = qkgeom::emulated::device::the().allocate(bytes, pool);
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeAsync(void* p, cudaStream_t s) {
  auto& device = qkgeom::emulated::device::the();
  device.give(qkgeom::emulated::of(s), [&device, p] { device.release(p); });
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  cudaDeviceSynchronize();
  if (p) qkgeom::emulated::device::the().release(p);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) { return qkgeom::emulated::device::the().release_pinned(p), cudaSuccess; }
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t s) {
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
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t status = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return status == cudaSuccess ? cudaStreamSynchronize(nullptr) : status;
}
