// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/backend/cuda/resources.cuh"
#include "qkgeom/backend/detail/cuda/dense.cuh"
#include "qkgeom/backend/detail/cuda/launcher.cuh"
#include "qkgeom/backend/detail/launch/launch_observed.hpp"
#include "qkgeom/backend/detail/launch/launch_pairs.hpp"
#include "qkgeom/backend/detail/thrust/primitives.hpp"
#include "qkgeom/backend/detail/thrust/scatter_by_products.hpp"

namespace qkgeom {

/// How the pair kernel multiplies keys: as two bf16 per value (as good as f32, three products), or as one. A weight or
/// terms always use two.
enum class gram_products { split_bf16, bf16 };

struct cuda_options {
  cudaStream_t stream = nullptr;  ///< the caller's; must outlive the context
  gram_products products = gram_products::split_bf16;
  std::size_t scratch_bytes = std::size_t{4} << 30;  ///< device memory for a launch's keys and sums, or scores
  int threads = 0;                                   ///< host threads for work on results; 0 or less: `usable_cores()`
};

/// Runs every primitive on the current CUDA device, on the caller's stream, on views of device memory. It has the
/// members of cpu_context. Results are host values, so a primitive waits for the stream only where it reads them.
/// Results do not depend on the order in which blocks run. Scratch memory comes from a stream-ordered pool of the
/// device. Throws `error` where CUDA reports one. Use a context from one thread at a time.
///
/// Sums over all pairs in f32, with a heatmap, a weight (device_weighted_pairs, prefix_uniform) or terms, are one
/// tensor core kernel over the tiles of many heads and query buckets; so are sums under observed queries. Drawn pairs
/// (f64) take many heads and buckets at once. f64 pairs, f64 observed queries, and terms together with a weight go
/// through Thrust, one bucket after the other.
class cuda_context : public thrust_kernels::primitives<cuda_kernels::policy, cuda_kernels::device_memory> {
  using base = thrust_kernels::primitives<cuda_kernels::policy, cuda_kernels::device_memory>;

 public:
  explicit cuda_context(const cuda_options& options = {})
      : cuda_context(options, cuda_kernels::device_memory(options.stream)) {}

  cudaStream_t stream() const { return options_.stream; }

  /// See cpu_context::moments. Second moments are batched f64 GEMMs.
  template <class T>
  std::vector<side_moments> moments(const char* side, const tensor_view<const T, space>& x,
                                    const vector_view<const std::int32_t, space>& position,
                                    const std::vector<std::int32_t>& bucket, index_t buckets, scatter_kind per_bucket);

  /// See cpu_context::symmetric_eigen; runs one batch of cuSOLVER.
  std::vector<eigen_system> symmetric_eigen(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return cuda_kernels::symmetric_eigen(
        device(), *handles_, (*slots_)[0], [&](index_t n, auto&& f) { for_each(n, f); }, matrices, d);
  }

  /// See cpu_context::gaussian_pairs. Sums of terms in f32 err by at most 1e-5 of their size, sums of variances by 1e-5
  /// of the sum of v. Throws on `request.weight`, which runs only on the host: give the weight as an argument.
  template <class T>
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T, space>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request);
  /// Does the same with a weight that runs on the device: double(const key_pair&).
  template <class T, class Weight>
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T, space>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request,
                                        const Weight& weight);

  /// See cpu_context::empirical_pairs. f32 allows at most 2^20 queries per bucket.
  template <class T>
  std::vector<pair_sums> empirical_pairs(const tensor_view<const T, space>& q, const tensor_view<const T, space>& k,
                                         const keys_by_document& groups, const std::vector<empirical_problem>& problems,
                                         std::optional<pair_precision> precision = {});

  /// See cpu_context::score_needles. Products are cuBLAS's.
  template <class T>
  void score_needles(const tensor_view<const T, space>& q, const tensor_view<const T, space>& k,
                     const std::vector<index_t>& key_of_query, const needle_plan& plan,
                     const std::vector<needle_document>& documents, const needle_sink& each) {
    base::score_needles(q, k, key_of_query, plan, documents, each, cuda_kernels::multiply_by_gemm{handles_.get()});
  }

 private:
  using typename base::device_type;
  using launcher_type = cuda_kernels::launcher<device_type>;

  template <class T, class Weight>
  std::vector<pair_sums> pairs_of(const tensor_view<const T, space>& k, const keys_by_document& groups,
                                  const std::vector<pair_problem>& problems, const pair_request& request,
                                  const Weight& weight);

  cuda_context(const cuda_options& options, const cuda_kernels::device_memory& memory)
      : cuda_context(options, memory,
                     std::make_unique<cuda_kernels::thrust_allocator>(cuda_kernels::thrust_allocator{memory})) {}
  cuda_context(const cuda_options& options, const cuda_kernels::device_memory& memory,
               std::unique_ptr<cuda_kernels::thrust_allocator> allocator)
      : base(thrust::cuda::par_nosync(*allocator).on(options.stream), memory, options.threads),
        options_(options),
        allocator_(std::move(allocator)),
        handles_(std::make_unique<cuda_kernels::handles>(options.stream)) {}

  cuda_options options_;
  std::unique_ptr<cuda_kernels::thrust_allocator> allocator_;  // the policy refers to it
  std::unique_ptr<cuda_kernels::handles> handles_;
  std::unique_ptr<std::array<cuda_kernels::copy_slot, 2>> slots_ =
      std::make_unique<std::array<cuda_kernels::copy_slot, 2>>();
};

template <class T>
std::vector<side_moments> cuda_context::moments(const char* side, const tensor_view<const T, space>& x,
                                                const vector_view<const std::int32_t, space>& position,
                                                const std::vector<std::int32_t>& bucket, index_t buckets,
                                                scatter_kind per_bucket) {
  return thrust_kernels::moments(
      device(),
      thrust_kernels::scatter_by_products{
          cuda_kernels::scatter_launcher{handles_.get(), slots_->data(), &this->memory()}},
      [&](index_t n, auto&& f) { for_each(n, f); }, side, x, position, bucket, buckets, per_bucket);
}

template <class T>
std::vector<pair_sums> cuda_context::gaussian_pairs(const tensor_view<const T, space>& k,
                                                    const keys_by_document& groups,
                                                    const std::vector<pair_problem>& problems,
                                                    const pair_request& request) {
  if (request.weight) return base::gaussian_pairs(k, groups, problems, request);
  return pairs_of(k, groups, problems, request, backend::no_weight{});
}

template <class T, class Weight>
std::vector<pair_sums> cuda_context::gaussian_pairs(const tensor_view<const T, space>& k,
                                                    const keys_by_document& groups,
                                                    const std::vector<pair_problem>& problems,
                                                    const pair_request& request, const Weight& weight) {
  return pairs_of(k, groups, problems, request, backend::given_weight<Weight>{weight});
}

template <class T, class Weight>
std::vector<pair_sums> cuda_context::pairs_of(const tensor_view<const T, space>& k, const keys_by_document& groups,
                                              const std::vector<pair_problem>& problems, const pair_request& request,
                                              const Weight& weight) {
  const auto here = device();
  if (request.sample.pairs > 0 && !Weight::given) {
    const cuda_kernels::multiply_by_gemm multiply{handles_.get()};
    return thrust_kernels::drawn_pairs<device_type, cuda_kernels::multiply_by_gemm, T, space>(
        here, multiply, options_.scratch_bytes, k, groups, problems, request)();
  }
  using tile_pairs = thrust_kernels::tile_pairs<launcher_type, T, space>;
  if (!tile_pairs::takes(here, k, problems, request, Weight::given))
    return thrust_kernels::gaussian_pairs(here, k, groups, problems, request, weight);
  const launcher_type launcher(here, *handles_);
  return tile_pairs(launcher, options_.scratch_bytes, options_.products == gram_products::split_bf16, k, groups,
                    problems, request)(weight);
}

template <class T>
std::vector<pair_sums> cuda_context::empirical_pairs(const tensor_view<const T, space>& q,
                                                     const tensor_view<const T, space>& k,
                                                     const keys_by_document& groups,
                                                     const std::vector<empirical_problem>& problems,
                                                     std::optional<pair_precision> precision) {
  const auto here = device();
  if (!thrust_kernels::tile_observed<launcher_type, T, space>::takes(here, q, k, precision))
    return base::empirical_pairs(q, k, groups, problems, precision);
  const launcher_type launcher(here, *handles_);
  return thrust_kernels::tile_observed<launcher_type, T, space>(launcher, options_.scratch_bytes, q, k, groups,
                                                                problems)();
}

/// Lists the members of cuda_context for rows of T. A build of many programs may compile them once
/// (.cmake/precompiled_cuda.cu) and define QKGEOM_PRECOMPILED_CUDA in every unit.
#define QKGEOM_CUDA_MEMBERS(prefix, T)                                                                              \
  prefix template std::vector<side_moments> cuda_context::moments(                                                  \
      const char*, const tensor_view<const T, memory_space::device>&,                                               \
      const vector_view<const std::int32_t, memory_space::device>&, const std::vector<std::int32_t>&, index_t,      \
      scatter_kind);                                                                                                \
  prefix template std::vector<pair_sums> cuda_context::gaussian_pairs(                                              \
      const tensor_view<const T, memory_space::device>&, const keys_by_document&, const std::vector<pair_problem>&, \
      const pair_request&);                                                                                         \
  prefix template std::vector<pair_sums> cuda_context::gaussian_pairs(                                              \
      const tensor_view<const T, memory_space::device>&, const keys_by_document&, const std::vector<pair_problem>&, \
      const pair_request&, const prefix_weight&);                                                                   \
  prefix template std::vector<pair_sums> cuda_context::empirical_pairs(                                             \
      const tensor_view<const T, memory_space::device>&, const tensor_view<const T, memory_space::device>&,         \
      const keys_by_document&, const std::vector<empirical_problem>&, std::optional<pair_precision>);

#if defined(QKGEOM_PRECOMPILED_CUDA)
QKGEOM_CUDA_MEMBERS(extern, float)
QKGEOM_CUDA_MEMBERS(extern, double)
QKGEOM_CUDA_MEMBERS(extern, bf16)
QKGEOM_CUDA_MEMBERS(extern, f16)
#endif

}  // namespace qkgeom
