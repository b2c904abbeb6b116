// SPDX-License-Identifier: MIT
#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "capture/forward/blockwise_attention.hpp"
#include "capture/forward/device/forward_pass.hpp"
#include "capture/forward/layer_weights.hpp"
#include "capture/forward/linear_map.hpp"
#include "capture/forward/products/blas.hpp"
#include "capture/forward/team.hpp"
#include "qkgeom/core/buffer.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom::test {

/// The host in place of a GPU: every step is the one that a GPU runs, at once and in order.
template <class Memory>
class host_device_with : public serial_device {
 public:
  using memory_type = Memory;
  struct event {};

  explicit host_device_with(thread_pool& pool) : pool_(&pool) { prepare_blas(pool.size()); }

  const Memory& memory() const { return memory_; }
  const Memory& weight_memory() const { return weight_memory_; }
  weight_reading reading(bool to_bf16) const {
    return {to_bf16, to_bf16 ? weight_format::bf16_rows : weight_format::f32};
  }
  event make_event() const { return {}; }
  void enter() const {}
  void host_waits(const event&) const {}
  void copies_wait(const event&) const {}
  void record_copies(const event&) const {}
  void work_waits(const event&) const {}
  void record_work(const event&) const {}
  void copy_weights(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }

  template <class Kernel>
  void rows(index_t n, const Kernel& kernel) {
    if (n < 64)  // sooner done than another thread wakes
      for (index_t i = 0; i < n; ++i) kernel(device_kernels::one_thread{}, i);
    else
      pool_->for_each(n, [&](index_t i, int) { kernel(device_kernels::one_thread{}, i); });
  }

  template <class T, class Out>
  void multiply(const product_shape& s, const T* a, const T* b, Out* c) {
    std::vector<float> x(size(s.rows * s.inner)), w(size(s.columns * s.inner)), y(size(s.rows * s.columns));
    for (index_t i = 0; i < s.batch; ++i) {
      for (index_t r = 0; r < s.rows; ++r)
        for (index_t j = 0; j < s.inner; ++j) x[size(r * s.inner + j)] = a[i * s.a.batch + r * s.a.row + j];
      for (index_t r = 0; r < s.columns; ++r)
        for (index_t j = 0; j < s.inner; ++j)
          w[size(r * s.inner + j)] = b[i * s.b.batch + (s.plain ? j * s.b.row + r : r * s.b.row + j)];
      multiply_transposed(s.rows, s.columns, s.inner, x.data(), s.inner, w.data(), s.inner, y.data(), s.columns);
      for (index_t r = 0; r < s.rows; ++r)
        for (index_t j = 0; j < s.columns; ++j) {
          Out& to = c[i * s.c.batch + r * s.c.row + j];
          to = device_kernels::to_element<Out>(y[size(r * s.columns + j)] + (s.adds ? static_cast<float>(to) : 0.0f));
        }
    }
  }

 protected:
  thread_pool& pool() const { return *pool_; }

 private:
  static std::size_t size(index_t n) { return static_cast<std::size_t>(n); }
  Memory memory_, weight_memory_;
  thread_pool* pool_;
};

using host_device = host_device_with<cpu_memory>;

template <class Device>
struct holds_device {
  Device on;
};
/// A device that the host plays, and a forward pass on it.
template <class Device, class T>
struct host_pass : holds_device<Device>, device_forward_pass<Device, T> {
  host_pass(Device device, const decoder_description& d, const checkpoint& weights, index_t last_layer,
            thread_pool& pool, const decoder_options& options)
      : holds_device<Device>{std::move(device)},
        device_forward_pass<Device, T>(this->on, d, weights, last_layer, pool, options) {}
};

/// Forward passes on Device(pool, arguments...).
template <class Device, class... Arguments>
forward_pass_factory pass_on(const decoder_options& options, Arguments... arguments) {
  return [=](const decoder_description& d, const checkpoint& weights, compute_type type, index_t last,
             thread_pool& pool) -> std::unique_ptr<forward_pass> {
    const Device device(pool, arguments...);
    if (type == compute_type::bf16)
      return std::make_unique<host_pass<Device, bf16>>(device, d, weights, last, pool, options);
    return std::make_unique<host_pass<Device, float>>(device, d, weights, last, pool, options);
  };
}

}  // namespace qkgeom::test
