// SPDX-License-Identifier: MIT
// cuBLAS, as far as this project uses it, emulated by the host: batches of column-major products, with cuBLAS's checks.
#pragma once

#include <cstdint>

#include "tests/emulated_cuda/cuda_runtime.h"

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_NOT_SUPPORTED = 15 };
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasFillMode_t { CUBLAS_FILL_MODE_LOWER };
enum cublasMath_t { CUBLAS_DEFAULT_MATH, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
enum cudaDataType_t { CUDA_R_32F, CUDA_R_64F, CUDA_R_16BF };

struct cublasContext {
  cudaStream_t stream = nullptr;
};
using cublasHandle_t = cublasContext*;

const char* cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t);

namespace qkgeom::emulated {

/// C = alpha op(A) op(B) + beta C for each matrix of a batch; F is float or double.
template <class F>
cublasStatus_t multiply_of_one_type(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                                    int k, const F* alpha, const F* a, int lda, long long step_a, const F* b, int ldb,
                                    long long step_b, const F* beta, F* c, int ldc, long long step_c, int batch);

}  // namespace qkgeom::emulated

inline constexpr auto cublasDgemmStridedBatched = qkgeom::emulated::multiply_of_one_type<double>;
inline constexpr auto cublasSgemmStridedBatched = qkgeom::emulated::multiply_of_one_type<float>;
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                          int n, int k, const void* alpha, const void* a, cudaDataType_t type_a,
                                          int lda, long long step_a, const void* b, cudaDataType_t type_b, int ldb,
                                          long long step_b, const void* beta, void* c, cudaDataType_t type_c, int ldc,
                                          long long step_c, int batch, cublasComputeType_t compute, cublasGemmAlgo_t);
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType_t type_a, int lda, const void* b,
                            cudaDataType_t type_b, int ldb, const void* beta, void* c, cudaDataType_t type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t by);
