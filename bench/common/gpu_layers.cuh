// SPDX-License-Identifier: MIT
#pragma once

#include <deque>
#include <future>
#include <vector>

#include "bench/common/gpu_rates.cuh"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/random.hpp"

namespace qkgeom::bench {

/// Query heads, each with its own key head. Rows spread over `context` tokens of each document.
struct layer_shape {
  index_t rows = sized(8000), heads = sized(30, 2), dim = 128, documents = sized(320), context = sized(131072);
  index_t repeat_every = 0;  ///< every so many keys one is the same as the key before it; 0: none

  index_t values() const { return rows * heads * dim; }  ///< of one side
};

/// Positions and documents that all layers share.
class shared_rows {
 public:
  shared_rows(const cuda_kernels::device_memory& memory, const layer_shape& shape)
      : shape_(shape), position_(memory, shape.rows), document_(memory, shape.rows) {
    std::vector<std::int32_t> position, document;
    const index_t each = shape.rows / shape.documents;
    const random_stream stream{.seed = 5};
    for (index_t i = 0; i < shape.rows; ++i) {
      const double within = shape.rows == shape.context ? 0.0 : stream.uniform(static_cast<std::uint64_t>(i));
      const double step = static_cast<double>(shape.context) / static_cast<double>(each);
      position.push_back(static_cast<std::int32_t>((static_cast<double>(i % each) + within) * step));
      document.push_back(static_cast<std::int32_t>(i / each));
    }
    position_.set(position);
    document_.set(document);
    check(cudaDeviceSynchronize(), "waiting for positions");
  }
  const layer_shape& shape() const { return shape_; }

  template <class T>
  layer_view<T, memory_space::device> view(const T* q, const T* k) const {
    const auto& s = shape_;
    const vector_view<const std::int32_t, memory_space::device> position{position_.data(), s.rows},
        document{document_.data(), s.rows};
    layer_view<T, memory_space::device> v{{q, s.rows, s.heads, s.dim, s.heads * s.dim, s.dim},
                                          position,
                                          document,
                                          {k, s.rows, s.heads, s.dim, s.heads * s.dim, s.dim},
                                          position,
                                          document,
                                          {},
                                          {}};
    for (index_t h = 0; h < s.heads; ++h) v.key_of_query.push_back(h);
    return v;
  }

 private:
  layer_shape shape_;
  buffer<std::int32_t, cuda_kernels::device_memory> position_, document_;
};

/// Layers of random rows on the device, at different addresses, so that none finds its rows in a cache.
template <class T>
class device_model {
 public:
  device_model(const layer_shape& shape, index_t layers = 1) : memory_(nullptr), rows_(memory_, shape) {
    for (index_t l = 0; l < layers; ++l)
      for (auto* side : {&q_, &k_}) {
        side->emplace_back(memory_, shape.values());
        fill(side->back().data(), shape.values(), static_cast<std::uint64_t>(2 * l + (side == &k_)));
      }
    const index_t width = shape.heads * shape.dim;
    for (auto& k : k_)
      for (index_t i = shape.repeat_every; shape.repeat_every > 0 && i < shape.rows; i += shape.repeat_every)
        check(cudaMemcpyAsync(k.data() + i * width, k.data() + (i - 1) * width,
                              static_cast<std::size_t>(width) * sizeof(T), cudaMemcpyDeviceToDevice, nullptr),
              "repeating a key");
    check(cudaDeviceSynchronize(), "filling the layers");
  }
  index_t layers() const { return static_cast<index_t>(q_.size()); }
  const shared_rows& rows() const { return rows_; }
  const T* q(index_t l) const { return q_[l].data(); }
  const T* k(index_t l) const { return k_[l].data(); }

  /// Calls f(layer) for each layer.
  template <class F>
  void each_layer(F&& f) const {
    for (index_t l = 0; l < layers(); ++l) f(rows_.view(q(l), k(l)));
  }

 private:
  cuda_kernels::device_memory memory_;
  shared_rows rows_;
  std::deque<buffer<T, cuda_kernels::device_memory>> q_, k_;
};

/// A copy of a device_model in host memory. While the device works on one layer, a second thread uploads the next.
template <class T, class Memory>
class host_model {
 public:
  explicit host_model(const device_model<T>& from)
      : from_(from), device_(nullptr), bytes_(static_cast<std::size_t>(from.rows().shape().values()) * sizeof(T)) {
    const index_t values = from.rows().shape().values();
    for (index_t l = 0; l < from.layers(); ++l)
      for (const bool key : {false, true}) {
        host_.emplace_back(memory_, values);
        check(cudaMemcpy(host_.back().data(), key ? from.k(l) : from.q(l), bytes_, cudaMemcpyDeviceToHost),
              "copying layers to the host");
      }
    for (int i = 0; i < 4; ++i) slot_.emplace_back(device_, values);
    check(cudaDeviceSynchronize(), "waiting for memory");
  }

  /// Calls f(layer) for each layer; when f returns, the device must have read the layer.
  template <class F>
  void each_layer(F&& f) const {
    auto next = begin(0);
    for (index_t l = 0; l < from_.layers(); ++l) {
      next.get();
      if (l + 1 < from_.layers()) next = begin(l + 1);
      f(from_.rows().view(slot(l, false), slot(l, true)));
    }
  }

 private:
  T* slot(index_t l, bool key) const { return slot_[l % 2 * 2 + key].data(); }
  std::future<void> begin(index_t l) const {
    return std::async(std::launch::async, [this, l] {
      for (const bool key : {false, true})
        check(cudaMemcpyAsync(slot(l, key), host_[2 * l + key].data(), bytes_, cudaMemcpyHostToDevice, stream_.get()),
              "copying a layer to the device");
      check(cudaStreamSynchronize(stream_.get()), "copying a layer to the device");
    });
  }

  const device_model<T>& from_;
  Memory memory_;
  cuda_kernels::device_memory device_;
  std::size_t bytes_;
  cuda_kernels::owned_stream stream_ = cuda_kernels::make_stream();
  std::deque<buffer<T, Memory>> host_;
  std::deque<buffer<T, cuda_kernels::device_memory>> slot_;
};

}  // namespace qkgeom::bench
