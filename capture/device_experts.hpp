// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "capture/description.hpp"
#include "capture/device_attention.hpp"
#include "capture/device_kernels.hpp"
#include "capture/device_weights.hpp"
#include "capture/feed_forward.hpp"
#include "qkgeom/core/buffer.hpp"

namespace qkgeom {

/// A layer's mixture of experts on a machine. Which expert takes which row is decided on the host, from the router's
/// logits: the machine is waited for once a chunk.
template <class Machine, class T>
class device_experts {
 public:
  explicit device_experts(Machine& m)
      : machine_(&m),
        router_(m.memory(), 0),
        weight_(m.memory(), 0),
        rows_(m.memory(), 0),
        active_(m.memory(), 0),
        out_(m.memory(), 0),
        wide_(m.memory(), 0),
        sum_(m.memory(), 0),
        index_(m.memory(), 0) {}

  /// What it holds on the machine for so many rows, at most: one expert may take them all.
  static index_t working_bytes(const decoder_description& d, index_t rows) {
    const experts_description& e = *d.experts;
    return rows * (static_cast<index_t>(sizeof(T)) * (3 * d.hidden + 3 * e.width) + 4 * e.count + 8 * e.chosen);
  }

  /// The sum (rows, hidden) of what the chosen experts make of x (rows, hidden). Valid until the next call.
  const T* operator()(const device_layer<Machine, T>& weights, const decoder_description& d, index_t rows, const T* x) {
    const experts_description& e = *d.experts;
    router_.reserve(rows * e.count);
    multiply(rows, e.count, d.hidden, x, weights.router.w.data(), router_.data());
    auto logits = router_.host(rows * e.count);
    const auto tokens = choose_experts(e, rows, logits, std::is_same_v<T, bf16>);
    sum_.reserve(rows * d.hidden);
    machine_->rows(rows, device_kernels::clear_rows<T>{sum_.data(), d.hidden});
    std::vector<std::int32_t> index;
    std::vector<float> weight;
    std::vector<index_t> begin{0};
    for (const auto& mine : tokens) {
      for (const auto& c : mine) {
        index.push_back(static_cast<std::int32_t>(c.token));
        weight.push_back(c.weight);
      }
      begin.push_back(static_cast<index_t>(index.size()));
    }
    index_.set(index);
    weight_.set(weight);
    for (std::size_t i = 0; i + 1 < begin.size(); ++i)
      if (begin[i + 1] > begin[i]) run(weights.experts[i], d, begin[i], begin[i + 1] - begin[i], x);
    return sum_.data();
  }

 private:
  template <class Out>
  void multiply(index_t rows, index_t out, index_t in, const T* x, const T* w, Out* y) {
    machine_->multiply(product_shape{rows, out, in, {in, 0}, {in, 0}, {out, 0}}, x, w, y);
  }

  void run(const typename device_layer<Machine, T>::feed_forward_maps& expert, const decoder_description& d,
           index_t first, index_t count, const T* x) {
    const index_t width = d.experts->width;
    rows_.reserve(count * d.hidden);
    wide_.reserve(count * 2 * width);
    active_.reserve(count * width);
    out_.reserve(count * d.hidden);
    machine_->rows(count, device_kernels::take_rows<T>{x, index_.data() + first, d.hidden, rows_.data()});
    multiply(count, 2 * width, d.hidden, rows_.data(), expert.up.w.data(), wide_.data());
    machine_->rows(count,
                   device_kernels::activate_rows<T, T>{wide_.data(), width, nullptr, d.act, true, active_.data()});
    multiply(count, d.hidden, width, active_.data(), expert.down.w.data(), out_.data());
    machine_->rows(count, device_kernels::add_expert_rows<T>{out_.data(), index_.data() + first, weight_.data() + first,
                                                             d.hidden, sum_.data()});
  }

  Machine* machine_;
  buffer<float, typename Machine::memory_type> router_, weight_;
  buffer<T, typename Machine::memory_type> rows_, active_, out_, wide_, sum_;
  buffer<std::int32_t, typename Machine::memory_type> index_;
};

}  // namespace qkgeom
