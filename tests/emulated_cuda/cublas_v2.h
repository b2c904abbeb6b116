// SPDX-License-Identifier: MIT
// cuBLAS, as far as this project uses it, emulated by the host: batches of column-major products, with cuBLAS's checks.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <type_traits>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/scalar.hpp"
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

inline const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "an argument is wrong";
}
inline cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  return *handle = new cublasContext, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  return handle->stream = stream, CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }

namespace qkgeom::emulated {

/// C (m, n) = alpha op(A) op(B) + beta C for each matrix of a batch; products and sums in `Sum`.
template <class Sum, class In, class Out>
cublasStatus_t multiply(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                        Sum alpha, const In* a, int lda, long long step_a, const In* b, int ldb, long long step_b,
                        Sum beta, Out* c, int ldc, long long step_c, int batch) {
  const int rows_a = op_a == CUBLAS_OP_N ? m : k, columns_a = op_a == CUBLAS_OP_N ? k : m;
  const int rows_b = op_b == CUBLAS_OP_N ? k : n, columns_b = op_b == CUBLAS_OP_N ? n : k;
  if (m < 0 || n < 0 || k < 0 || batch < 0 || lda < std::max(1, rows_a) || ldb < std::max(1, rows_b) ||
      ldc < std::max(1, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
  auto& on = device::the();
  const auto inside = [&](const auto* x, int rows, int columns, int ld, long long step) {
    const auto values = (batch - 1) * step + static_cast<long long>(columns - 1) * ld + rows;
    return rows == 0 || columns == 0 || on.holds(x, static_cast<std::size_t>(values) * sizeof(*x));
  };
  require(inside(a, rows_a, columns_a, lda, step_a) && inside(b, rows_b, columns_b, ldb, step_b) &&
              inside(c, m, n, ldc, step_c),
          "a product of matrices that are not on the device, or larger than what is there");
  on.give(of(handle->stream), [=] {
    using matrix = Eigen::Matrix<Sum, Eigen::Dynamic, Eigen::Dynamic>;
    const auto read = [](cublasOperation_t op, const auto* x, int rows, int columns, int ld) {
      matrix y(rows, columns);
      for (int j = 0; j < columns; ++j)
        for (int i = 0; i < rows; ++i)
          y(i, j) = static_cast<Sum>(
              x[op == CUBLAS_OP_N ? static_cast<long long>(j) * ld + i : static_cast<long long>(i) * ld + j]);
      return y;
    };
    for (int s = 0; s < batch; ++s) {
      const matrix product = read(op_a, a + s * step_a, m, k, lda) * read(op_b, b + s * step_b, k, n, ldb);
      for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) {
          Out& to = c[s * step_c + static_cast<long long>(j) * ldc + i];
          const Sum sum = alpha * product(i, j) + (beta == 0 ? Sum(0) : beta * static_cast<Sum>(to));
          if constexpr (std::is_same_v<Out, bf16>)
            to = bf16::round(sum);
          else
            to = sum;
        }
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

template <class F>
cublasStatus_t multiply_of_one_type(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                                    int k, const F* alpha, const F* a, int lda, long long step_a, const F* b, int ldb,
                                    long long step_b, const F* beta, F* c, int ldc, long long step_c, int batch) {
  return multiply(handle, op_a, op_b, m, n, k, *alpha, a, lda, step_a, b, ldb, step_b, *beta, c, ldc, step_c, batch);
}

}  // namespace qkgeom::emulated

inline constexpr auto cublasDgemmStridedBatched = qkgeom::emulated::multiply_of_one_type<double>;
inline constexpr auto cublasSgemmStridedBatched = qkgeom::emulated::multiply_of_one_type<float>;
inline cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                                                 int m, int n, int k, const void* alpha, const void* a,
                                                 cudaDataType_t type_a, int lda, long long step_a, const void* b,
                                                 cudaDataType_t type_b, int ldb, long long step_b, const void* beta,
                                                 void* c, cudaDataType_t type_c, int ldc, long long step_c, int batch,
                                                 cublasComputeType_t compute, cublasGemmAlgo_t) {
  if (compute == CUBLAS_COMPUTE_64F && type_a == CUDA_R_64F && type_b == CUDA_R_64F && type_c == CUDA_R_64F)
    return cublasDgemmStridedBatched(handle, op_a, op_b, m, n, k, static_cast<const double*>(alpha),
                                     static_cast<const double*>(a), lda, step_a, static_cast<const double*>(b), ldb,
                                     step_b, static_cast<const double*>(beta), static_cast<double*>(c), ldc, step_c,
                                     batch);
  if (compute != CUBLAS_COMPUTE_32F || type_a != type_b || type_a == CUDA_R_64F || type_c == CUDA_R_64F ||
      (type_a == CUDA_R_32F && type_c != CUDA_R_32F))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto run = [&](auto in, auto out) {
    using In = decltype(in);
    using Out = decltype(out);
    return qkgeom::emulated::multiply(handle, op_a, op_b, m, n, k, *static_cast<const float*>(alpha),
                                      static_cast<const In*>(a), lda, step_a, static_cast<const In*>(b), ldb, step_b,
                                      *static_cast<const float*>(beta), static_cast<Out*>(c), ldc, step_c, batch);
  };
  if (type_a == CUDA_R_32F) return run(0.0f, 0.0f);
  return type_c == CUDA_R_32F ? run(qkgeom::bf16{}, 0.0f) : run(qkgeom::bf16{}, qkgeom::bf16{});
}
inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                                   int k, const void* alpha, const void* a, cudaDataType_t type_a, int lda,
                                   const void* b, cudaDataType_t type_b, int ldb, const void* beta, void* c,
                                   cudaDataType_t type_c, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t by) {
  return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, 0, b, type_b, ldb, 0, beta, c,
                                    type_c, ldc, 0, 1, compute, by);
}
