// SPDX-License-Identifier: MIT
// gpu: rates of cuda_context beside the card's ceilings, one JSON object on standard output. Times are CUDA events
// around whole calls, results on the host included, the median of several after a warm-up. Data are random, on the
// device.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "qkgeom/backend/cuda_context.cuh"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/rotation.hpp"
#include "qkgeom/plasticity/profile.hpp"

namespace {

using namespace qkgeom;
using cuda_kernels::check;
constexpr auto device = memory_space::device;
constexpr index_t dim = 128, length = 131072;

/// Roughly normal values with a drift by row.
__global__ void fill(bf16* x, index_t n, std::uint64_t seed) {
  const index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto b = random_stream{.seed = seed}.bits(static_cast<std::uint64_t>(i));
  float sum = 0;
  for (int k = 0; k < 4; ++k) sum += static_cast<float>(b[k]) * 0x1p-32f - 0.5f;
  x[i] = bf16::round(1.7f * sum + 0.3f);
}

template <class T>
T* allocate(index_t n) {
  T* p = nullptr;
  check(cudaMalloc(&p, static_cast<std::size_t>(n) * sizeof(T)), "cudaMalloc");
  return p;
}

/// One layer of heads that share positions: `examples` documents, rows spread over the context.
struct bench_layer {
  index_t rows, heads;
  bf16 *q, *k;
  std::int32_t *position, *example;

  bench_layer(index_t n, index_t h, index_t examples) : rows(n), heads(h) {
    q = allocate<bf16>(n * h * dim);
    k = allocate<bf16>(n * h * dim);
    position = allocate<std::int32_t>(n);
    example = allocate<std::int32_t>(n);
    const auto blocks = static_cast<unsigned>((n * h * dim + 255) / 256);
    fill<<<blocks, 256>>>(q, n * h * dim, 1);
    fill<<<blocks, 256>>>(k, n * h * dim, 2);
    std::vector<std::int32_t> t, e;
    const index_t each = n / examples;
    for (index_t i = 0; i < n; ++i) {
      t.push_back(static_cast<std::int32_t>(i % each * length / each));
      e.push_back(static_cast<std::int32_t>(i / each));
    }
    check(cudaMemcpy(position, t.data(), t.size() * 4, cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemcpy(example, e.data(), e.size() * 4, cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~bench_layer() {
    for (void* p :
         {static_cast<void*>(q), static_cast<void*>(k), static_cast<void*>(position), static_cast<void*>(example)})
      cudaFree(p);
  }
  layer_view<bf16, device> view() const {
    layer_view<bf16, device> v{{q, rows, heads, dim, heads * dim, dim},
                               {position, rows},
                               {example, rows},
                               {k, rows, heads, dim, heads * dim, dim},
                               {position, rows},
                               {example, rows},
                               {},
                               {}};
    for (index_t h = 0; h < heads; ++h) v.key_of_query.push_back(h);
    return v;
  }
};

/// Median seconds of `n` calls after one.
double seconds(int n, const std::function<void()>& call) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<double> times;
  for (int i = 0; i <= n; ++i) {
    cudaEventRecord(begin);
    call();
    cudaEventRecord(end);
    check(cudaEventSynchronize(end), "waiting for the end");
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    if (i > 0) times.push_back(1e-3 * ms);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double gemm_rate(cudaDataType type, cublasComputeType_t compute, index_t n, index_t element) {
  cublasHandle_t blas;
  check(cublasCreate(&blas), "cublasCreate");
  char *a = allocate<char>(n * n * element), *c = allocate<char>(n * n * 8);
  fill<<<static_cast<unsigned>((n * n * element / 2 + 255) / 256), 256>>>(reinterpret_cast<bf16*>(a),
                                                                          n * n * element / 2, 3);
  const float one = 1, zero = 0;
  const double one64 = 1, zero64 = 0;
  const bool wide = compute == CUBLAS_COMPUTE_64F;
  const auto size = static_cast<int>(n);
  const double s = seconds(10, [&] {
    check(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, size, size, size, wide ? static_cast<const void*>(&one64) : &one,
                       a, type, size, a, type, size, wide ? static_cast<const void*>(&zero64) : &zero, c,
                       wide ? CUDA_R_64F : CUDA_R_32F, size, compute, CUBLAS_GEMM_DEFAULT),
          "cublasGemmEx");
  });
  cudaFree(a);
  cudaFree(c);
  cublasDestroy(blas);
  const auto x = static_cast<double>(n);
  return 2 * x * x * x / s;
}

double pairs_of(const std::vector<plasticity_profile_result>& profiles) {
  double n = 0;
  for (const auto& p : profiles)
    for (const auto& b : p.buckets) n += static_cast<double>(b.pairs);
  return n;
}

void print(const char* name, double value) { std::printf(",\n  \"%s\": %.6g", name, value); }

void bench_pairs(const char* name, gram_products products, index_t rows, index_t heads, index_t bucket, double gemm) {
  cuda_context ctx{{.products = products}};
  const bench_layer layer(rows, heads, 1);
  const auto models =
      fit_queries(ctx, accumulate(ctx, layer.view(), uniform_buckets{bucket}, {.context_length = length}));
  double pairs = 0;
  const double s =
      seconds(5, [&] { pairs = pairs_of(plasticity_profile(ctx, models, layer.view(), all_pairs{true})); });
  print((std::string(name) + "_seconds").c_str(), s);
  print((std::string(name) + "_pairs_a_second").c_str(), pairs / s);
  const double flops = 2.0 * dim * (products == gram_products::split_bf16 ? 3 : 1);
  print((std::string(name) + "_share_of_gemm").c_str(), pairs / s * flops / gemm);
}

void bench_model(const char* name, bool across) {
  cuda_context ctx;
  const bench_layer layer(8000, 30, 320);  // 10 layers of 30 heads; their time does not depend on their values
  double moments = 0, geometry = 0, pairs = 0, all = 0;
  const auto once = [&] {
    const auto m = accumulate(ctx, layer.view(), uniform_buckets{8192}, {.context_length = length});
    pca(ctx, m);
    planar_rotation(ctx, m);
    const auto models = fit_queries(ctx, m);
    pairs = pairs_of(plasticity_profile(ctx, models, layer.view(), all_pairs{across}));
  };
  const auto m = accumulate(ctx, layer.view(), uniform_buckets{8192}, {.context_length = length});
  moments = 10 * seconds(5, [&] { accumulate(ctx, layer.view(), uniform_buckets{8192}, {.context_length = length}); });
  geometry = 10 * seconds(5, [&] { pca(ctx, m); });
  all = 10 * seconds(5, once);
  const std::string n(name);
  print((n + "_moments_seconds").c_str(), moments);
  print((n + "_pca_seconds").c_str(), geometry);
  print((n + "_seconds").c_str(), all);
  print((n + "_pairs").c_str(), 10 * pairs);
}

}  // namespace

int main() try {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "gpu: no CUDA device on this machine\n");
    return 77;
  }
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  std::printf("{\n  \"gpu\": \"%s\"", properties.name);
  const double bf16_rate = gemm_rate(CUDA_R_16BF, CUBLAS_COMPUTE_32F, 8192, 2);
  print("gemm_bf16_flops", bf16_rate);
  print("gemm_f64_flops", gemm_rate(CUDA_R_64F, CUBLAS_COMPUTE_64F, 4096, 8));
  {
    const index_t bytes = index_t{4} << 30;
    char *a = allocate<char>(bytes), *b = allocate<char>(bytes);
    const double s =
        seconds(5, [&] { cudaMemcpyAsync(b, a, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice); });
    print("copy_bytes_a_second", 2 * static_cast<double>(bytes) / s);
    cudaFree(a);
    cudaFree(b);
  }
  bench_pairs("one_head_pooled_split", gram_products::split_bf16, 8000, 1, 8192, bf16_rate);
  bench_pairs("layer_pooled_split", gram_products::split_bf16, 8000, 30, 8192, bf16_rate);
  bench_pairs("layer_pooled_bf16", gram_products::bf16, 8000, 30, 8192, bf16_rate);
  bench_pairs("every_key_of_131072_split", gram_products::split_bf16, length, 1, 8192, bf16_rate);
  bench_model("model_same_example", false);
  bench_model("model_pooled", true);
  std::printf("\n}\n");
} catch (const std::exception& e) {
  std::fprintf(stderr, "gpu: %s\n", e.what());
  return 1;
}
