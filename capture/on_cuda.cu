// SPDX-License-Identifier: MIT
#include "capture/on_cuda.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "capture/forward/device/cuda_device.cuh"
#include "capture/forward/device/forward_pass.hpp"
#include "capture/job/stores/moment_store.hpp"
#include "capture/job/stores/statistics_store.hpp"
#include "qkgeom/backend/cuda_context.cuh"

namespace qkgeom {
namespace {

/// A device and the library's context on it.
template <class T>
struct cuda_resources {
  cuda_device device{0};
  cuda_context context{{.stream = device.stream()}};
};

template <class T>
struct holds_cuda {
  std::shared_ptr<cuda_resources<T>> held;
};

template <class T>
class cuda_pass : holds_cuda<T>, public device_forward_pass<cuda_device, T> {
 public:
  cuda_pass(std::shared_ptr<cuda_resources<T>> cuda, const cuda_capture_options& options, const decoder_description& d,
            const checkpoint& weights, index_t last_layer, thread_pool& pool)
      : holds_cuda<T>{std::move(cuda)},
        device_forward_pass<cuda_device, T>(this->held->device, d, weights, last_layer, pool,
                                            sizes_for(*this->held, options, d)) {}

  bool takes_moments(moment_store& store) override {
    this->bring_moments(store, [this](const char* side, const tensor_view<const T, memory_space::device>& x,
                                      const vector_view<const std::int32_t, memory_space::device>& position) {
      return total_moments(this->held->context, side, x, position);
    });
    return true;
  }

 private:
  using decoder_type = decoder<cuda_device, T>;

  static decoder_options sizes_for(const cuda_resources<T>& cuda, const cuda_capture_options& options,
                                   const decoder_description& d) {
    decoder_options sizes;
    if (options.chunk > 0) sizes.chunk = options.chunk;
    switch (options.resident) {
      case resident_layers::stream:
        break;
      case resident_layers::all:
        sizes.resident = std::numeric_limits<index_t>::max();
        break;
      case resident_layers::automatic: {
        // Leaves room for working memory, two streaming layers, the softmax, and a tenth for pools and libraries.
        index_t consumers = 0;
        const index_t tokens = std::max(options.max_length > 0 ? options.max_length : d.context, options.batch_tokens);
        index_t largest = 0;
        for (index_t l = 0; l < d.n_layers(); ++l)
          if (!d.layers[l].skipped) largest = std::max(largest, decoder_type::layer_bytes(d, l));
        if (options.softmax)
          consumers += sampled_softmax<cuda_device, T>::working_bytes(d.query_heads, d.widest_head(), tokens,
                                                                      distance_bins(tokens), cuda.device.workers());
        cuda.device.memory().pool().trim();
        std::size_t free = 0, total = 0;
        cuda_kernels::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
        sizes.resident =
            std::max<index_t>(0, static_cast<index_t>(free) - static_cast<index_t>(total / 10) - consumers -
                                     2 * largest - decoder_type::working_bytes(d, tokens, sizes));
      }
    }
    return sizes;
  }
};

template <class T>
capture_backend backend_on(const cuda_capture_options& options) {
  const auto cuda = std::make_shared<cuda_resources<T>>();
  return {.moments = {},
          .forward = [cuda, options](const decoder_description& d, const checkpoint& weights, compute_type,
                                     index_t last_layer, thread_pool& pool) {
            return std::make_unique<cuda_pass<T>>(cuda, options, d, weights, last_layer, pool);
          }};
}

}  // namespace

capture_backend cuda_backend(const cuda_capture_options& options, compute_type type) {
  cuda_kernels::require_device();
  return type == compute_type::bf16 ? backend_on<bf16>(options) : backend_on<float>(options);
}

forward_pass_factory cuda_forward_pass(const cuda_capture_options& options) {
  cuda_kernels::require_device();
  return
      [options](const decoder_description& d, const checkpoint& weights, compute_type type, index_t last_layer,
                thread_pool& pool) { return cuda_backend(options, type).forward(d, weights, type, last_layer, pool); };
}

}  // namespace qkgeom
