// SPDX-License-Identifier: MIT
// The module's calls on cuda_context.
#include "on_cuda.hpp"

#include <memory>
#include <optional>

#include "qkgeom/backend/cuda_context.cuh"
#include "qkgeom/report/analyse_layer.hpp"

namespace qkgeom::python {
namespace {

constexpr auto device = memory_space::device;

/// Makes a device the current one while it lives.
class current_device {
 public:
  explicit current_device(int number) {
    cuda_kernels::check(cudaGetDevice(&before_), "cudaGetDevice");
    cuda_kernels::check(cudaSetDevice(number), "cudaSetDevice");
  }
  current_device(const current_device&) = delete;
  ~current_device() { cudaSetDevice(before_); }

 private:
  int before_ = 0;
};

/// Rows of T with their positions and documents on the device.
template <class T>
class uploaded_layer {
 public:
  uploaded_layer(const cuda_kernels::device_memory& memory, const cuda_rows& rows)
      : q_position_(memory, rows.q_position),
        q_document_(memory, rows.q_document),
        k_position_(memory, rows.k_position),
        k_document_(memory, rows.k_document),
        view_{rows_of(rows.q),  q_position_.view, q_document_.view,  rows_of(rows.k),
              k_position_.view, k_document_.view, rows.key_of_query, rows.window} {}

  const layer_view<T, device>& view() const { return view_; }

 private:
  struct integers {
    buffer<std::int32_t, cuda_kernels::device_memory> values;
    vector_view<const std::int32_t, device> view;
    integers(const cuda_kernels::device_memory& memory, const vector_view<const std::int32_t>& x)
        : values(memory, x.size), view{values.data(), x.size} {
      if (x.size > 0) memory.from_host(values.data(), x.data, x.size * sizeof(std::int32_t));
    }
  };
  static tensor_view<const T, device> rows_of(const tensor_view<const char, device>& x) {
    return {reinterpret_cast<const T*>(x.data), x.rows, x.heads, x.dim, x.row_stride, x.head_stride};
  }
  integers q_position_, q_document_, k_position_, k_document_;
  layer_view<T, device> view_;
};

/// A context that calls a function before each primitive that takes time.
class watched_context : public cuda_context {
 public:
  watched_context(void (*before_each_step)(), const cuda_options& options)
      : cuda_context(options), before_each_step_(before_each_step) {}

  template <class T>
  std::vector<side_moments> moments(const char* side, const tensor_view<const T, space>& x,
                                    const vector_view<const std::int32_t, space>& position,
                                    const std::vector<std::int32_t>& bucket, index_t buckets, scatter_kind per_bucket) {
    before_each_step_();
    return cuda_context::moments(side, x, position, bucket, buckets, per_bucket);
  }
  template <class T, class... Weight>
  requires requires(cuda_context& ctx, const tensor_view<const T, space>& k, const keys_by_document& groups,
                    const std::vector<pair_problem>& problems, const pair_request& request, const Weight&... weight) {
    ctx.gaussian_pairs(k, groups, problems, request, weight...);
  }
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T, space>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request,
                                        const Weight&... weight) {
    before_each_step_();
    return cuda_context::gaussian_pairs(k, groups, problems, request, weight...);
  }
  template <class T>
  std::vector<pair_sums> empirical_pairs(const tensor_view<const T, space>& q, const tensor_view<const T, space>& k,
                                         const keys_by_document& groups, const std::vector<empirical_problem>& problems,
                                         std::optional<pair_precision> precision = {}) {
    before_each_step_();
    return cuda_context::empirical_pairs(q, k, groups, problems, precision);
  }

 private:
  void (*before_each_step_)();
};

class calls_on_device final : public cuda_calls {
  using context_type = watched_context;

  template <class F>
  auto on(const cuda_place& place, F&& f) {
    cuda_kernels::require_device();
    const current_device here(place.device);
    if (!context_ || !(place_ == place)) {
      context_.reset();
      context_ = std::make_unique<context_type>(before_each_step_,
                                                cuda_options{.stream = reinterpret_cast<cudaStream_t>(place.stream)});
      place_ = place;
    }
    return f(*context_);
  }
  template <class F>
  auto on_layer(const cuda_rows& rows, F&& f) {
    return on(rows.place, [&](context_type& ctx) {
      return visit_element_type(rows.element,
                                [&]<class T>() { return f(ctx, uploaded_layer<T>(ctx.memory(), rows).view()); });
    });
  }

 public:
  explicit calls_on_device(void (*before_each_step)()) : before_each_step_(before_each_step) {}

  void copy_to_host(const cuda_place& place, void* to, const void* from, std::size_t bytes) override {
    on(place, [&](auto& ctx) { ctx.memory().to_host(to, from, bytes); });
  }
  std::vector<head_report> analyse(const cuda_rows& rows, const layer_names& names, const bucket_edges& buckets,
                                   index_t context_length, const analysis_options& options) override {
    return on_layer(rows, [&](auto& ctx, const auto& layer) {
      return analyse_layer(ctx, layer, names, buckets, context_length, options);
    });
  }
  layer_moments accumulate(const cuda_rows& rows, const bucket_edges& buckets, index_t context_length) override {
    return on_layer(rows, [&](auto& ctx, const auto& layer) {
      return qkgeom::accumulate(ctx, layer, edge_buckets{buckets.edges()}, {.context_length = context_length});
    });
  }
  std::vector<plasticity_profile_result> profiles(const std::vector<query_model>& models, const cuda_rows& rows,
                                                  pairs_of_profile pairs, bool across_documents,
                                                  const profile_options& options) override {
    return on_layer(rows, [&](auto& ctx, const auto& layer) {
      if (pairs == pairs_of_profile::all)
        return plasticity_profile(ctx, models, layer, all_pairs{across_documents}, options);
      return plasticity_profile(ctx, models, layer, prefix_uniform{across_documents}, options);
    });
  }

 private:
  void (*before_each_step_)();
  std::unique_ptr<context_type> context_;  // of place_: the calls of a program are mostly on one stream
  cuda_place place_;
};

}  // namespace
}  // namespace qkgeom::python

extern "C" __attribute__((visibility("default"))) qkgeom::python::cuda_calls* qkgeom_cuda_calls(
    void (*before_each_step)()) {
  static auto* const calls = new qkgeom::python::calls_on_device(before_each_step);  // CUDA may end before statics do
  return calls;
}
