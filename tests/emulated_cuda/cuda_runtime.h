// SPDX-License-Identifier: MIT
// CUDA's runtime, as far as this project uses it, emulated by the host.
#pragma once

#include <cstddef>
#include <memory>

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

const std::shared_ptr<stream>& of(cudaStream_t s);

}  // namespace qkgeom::emulated

const char* cudaGetErrorString(cudaError_t status);
cudaError_t cudaGetLastError();

cudaError_t cudaGetDeviceCount(int* n);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaSetDevice(int device);
struct cudaDeviceProp {
  char name[256];
  int multiProcessorCount;
};
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* of, int);
enum cudaDeviceAttr { cudaDevAttrPageableMemoryAccessUsesHostPageTables };
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int);
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice };
struct cudaPointerAttributes {
  cudaMemoryType type;
};
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* of, const void* p);
cudaError_t cudaDeviceSynchronize();

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags);
cudaError_t cudaStreamCreate(cudaStream_t* s);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
/// All work takes a millisecond.
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e);

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes);
cudaError_t cudaMallocFromPoolAsync(void** p, std::size_t bytes, cudaMemPool_t pool, cudaStream_t);
cudaError_t cudaFreeAsync(void* p, cudaStream_t s);
template <class T>
cudaError_t cudaMalloc(T** p, std::size_t bytes) {
  *p = static_cast<T*>(qkgeom::emulated::device::the().allocate(bytes));
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* p);
template <class T>
cudaError_t cudaHostAlloc(T** p, std::size_t bytes, unsigned) {
  *p = static_cast<T*>(qkgeom::emulated::device::the().allocate_pinned(bytes));
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void* p);

/// Copies from pageable host memory take what is there at the call, unless the device reads such memory itself.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t s);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
