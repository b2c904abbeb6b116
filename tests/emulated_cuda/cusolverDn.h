// SPDX-License-Identifier: MIT
// cuSOLVER, as far as this project uses it, emulated by the host.
#pragma once

#include <Eigen/Eigenvalues>
#include <cstddef>
#include <cstdint>

#include "qkgeom/core/error.hpp"
#include "tests/emulated_cuda/cublas_v2.h"

enum cusolverStatus_t { CUSOLVER_STATUS_SUCCESS = 0, CUSOLVER_STATUS_INVALID_VALUE = 3 };
enum cusolverEigMode_t { CUSOLVER_EIG_MODE_VECTOR = 1 };

struct cusolverDnContext {
  cudaStream_t stream = nullptr;
};
struct cusolverDnParams {};
using cusolverDnHandle_t = cusolverDnContext*;
using cusolverDnParams_t = cusolverDnParams*;

inline cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  return *handle = new cusolverDnContext, CUSOLVER_STATUS_SUCCESS;
}
inline cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  delete handle;
  return CUSOLVER_STATUS_SUCCESS;
}
inline cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  return handle->stream = stream, CUSOLVER_STATUS_SUCCESS;
}
inline cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* params) {
  return *params = new cusolverDnParams, CUSOLVER_STATUS_SUCCESS;
}
inline cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params) {
  delete params;
  return CUSOLVER_STATUS_SUCCESS;
}

inline cusolverStatus_t cusolverDnXsyevBatched_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                                          cublasFillMode_t, std::int64_t n, cudaDataType_t, const void*,
                                                          std::int64_t, cudaDataType_t, const void*, cudaDataType_t,
                                                          std::size_t* on_device, std::size_t* on_host,
                                                          std::int64_t batch) {
  *on_device = static_cast<std::size_t>(n * batch) * sizeof(double);
  *on_host = 0;
  return CUSOLVER_STATUS_SUCCESS;
}
/// Eigenvalues, ascending, and eigenvectors in columns of f64 matrices; reads their lower triangles (column-major).
inline cusolverStatus_t cusolverDnXsyevBatched(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t,
                                               cublasFillMode_t, std::int64_t n, cudaDataType_t type_a, void* a,
                                               std::int64_t lda, cudaDataType_t type_w, void* w, cudaDataType_t compute,
                                               void* work, std::size_t work_bytes, void*, std::size_t, int* info,
                                               std::int64_t batch) {
  if (n < 1 || lda < n || type_a != CUDA_R_64F || type_w != CUDA_R_64F || compute != CUDA_R_64F)
    return CUSOLVER_STATUS_INVALID_VALUE;
  auto& on = qkgeom::emulated::device::the();
  const auto there = [&](const void* p, std::int64_t values, std::size_t size) {
    return on.holds(p, static_cast<std::size_t>(values) * size);
  };
  qkgeom::require(there(a, n * lda * batch, sizeof(double)) && there(w, n * batch, sizeof(double)) &&
                      there(info, batch, sizeof(int)) && on.holds(work, work_bytes) &&
                      work_bytes >= static_cast<std::size_t>(n * batch) * sizeof(double),
                  "an eigenproblem that is not on the device, or larger than what is there");
  on.give(qkgeom::emulated::of(handle->stream), [=] {
    for (std::int64_t b = 0; b < batch; ++b) {
      using matrix = Eigen::MatrixXd;
      Eigen::Map<matrix, 0, Eigen::OuterStride<>> m(static_cast<double*>(a) + b * n * lda, n, n,
                                                    Eigen::OuterStride<>(lda));
      const Eigen::SelfAdjointEigenSolver<matrix> solved{matrix(m)};  // reads the lower triangle
      Eigen::Map<Eigen::VectorXd>(static_cast<double*>(w) + b * n, n) = solved.eigenvalues();
      m = solved.eigenvectors();
      info[b] = solved.info() == Eigen::Success ? 0 : 1;
    }
  });
  return CUSOLVER_STATUS_SUCCESS;
}
