// SPDX-License-Identifier: MIT
// What tests/python/cuda_check.py needs of the emulated device.
#include <cuda_runtime.h>

#define QKGEOM_EXPORTED extern "C" __attribute__((visibility("default")))

/// A new stream, which works when somebody waits for it.
QKGEOM_EXPORTED void* emulated_stream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return stream;
}

/// Device memory that holds a copy of `from` once `stream` has come so far. `from` must stay as it is until then.
QKGEOM_EXPORTED void* emulated_copy(const void* from, std::size_t bytes, void* stream) {
  char* to = nullptr;
  cudaMalloc(&to, bytes);
  cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, static_cast<cudaStream_t>(stream));
  return to;
}
