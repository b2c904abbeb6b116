// SPDX-License-Identifier: MIT
// cuSOLVER, as far as this project uses it, emulated by the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/emulated_cuda/cublas_v2.h"

enum cusolverStatus_t { CUSOLVER_STATUS_SUCCESS = 0, CUSOLVER_STATUS_INVALID_VALUE = 3 };
enum cusolverEigMode_t { CUSOLVER_EIG_MODE_VECTOR = 1 };

struct cusolverDnContext {
  cudaStream_t stream = nullptr;
};
struct cusolverDnParams {};
using cusolverDnHandle_t = cusolverDnContext*;
using cusolverDnParams_t = cusolverDnParams*;

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle);
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream);
cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* params);
cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params);

cusolverStatus_t cusolverDnXsyevBatched_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                                   cublasFillMode_t, std::int64_t n, cudaDataType_t, const void*,
                                                   std::int64_t, cudaDataType_t, const void*, cudaDataType_t,
                                                   std::size_t* on_device, std::size_t* on_host, std::int64_t batch);
/// Eigenvalues, ascending, and eigenvectors in columns of f64 matrices; reads their lower triangles (column-major).
cusolverStatus_t cusolverDnXsyevBatched(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t,
                                        cublasFillMode_t, std::int64_t n, cudaDataType_t type_a, void* a,
                                        std::int64_t lda, cudaDataType_t type_w, void* w, cudaDataType_t compute,
                                        void* work, std::size_t work_bytes, void*, std::size_t, int* info,
                                        std::int64_t batch);
