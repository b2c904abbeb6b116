// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "capture/device_decoder.hpp"
#include "capture/forward_pass.hpp"

namespace qkgeom {

/// The forward pass of a capture on a machine: hands values of the machine to sinks of the host, a copy of a layer of a
/// document each.
template <class Machine, class T>
class device_forward_pass : public forward_pass {
 public:
  using decoder_type = device_decoder<Machine, T>;
  static constexpr memory_space space = decoder_type::space;
  using view = tensor_view<const T, space>;

  /// The arguments must live longer.
  device_forward_pass(Machine& m, const decoder_description& description, const checkpoint& model, index_t last_layer,
                      thread_pool& pool, const device_decoder_options& options)
      : machine_(&m),
        pool_(&pool),
        decoder_(m, description, model, last_layer, pool, options),
        rows_(*this),
        attended_(*this),
        index_(m.memory(), 0),
        gathered_(m.memory(), 0) {}

  void run(std::span<const token_span> documents, rope_stage stage, const batch_sinks& sinks) override {
    device_sinks<T, space> to;
    const auto collect = [&](host_copy& copy, const batch_sinks::layer_sink& sink) -> device_row_sink<T, space> {
      if (!sink) return {};
      return [&copy, &sink, documents](std::size_t i, index_t layer, index_t first, view q, view k) {
        const auto tokens = static_cast<index_t>(documents[i].size());
        copy.add(tokens, first, q, k);
        if (first + q.rows == tokens) sink(i, layer, copy.q_view(), copy.k_view());
      };
    };
    to.rows = collect(rows_, sinks.rows);
    to.attended = collect(attended_, sinks.attended);
    to.losses = sinks.losses;
    decoder_.run(documents, stage, to);
  }

  void check_output() const override { decoder_.check_output(); }

 private:
  /// Queries and keys of a document's layer as floats, (tokens, heads, dim).
  class host_copy {
   public:
    explicit host_copy(device_forward_pass& of) : of_(&of) {}

    void add(index_t tokens, index_t first, const view& q, const view& k) {
      put(tokens, first, q, q_);
      put(tokens, first, k, k_);
      tokens_ = tokens, q_heads_ = q.heads, k_heads_ = k.heads, dim_ = q.dim;
    }
    tensor_view<const float> q_view() const { return packed_tensor(q_.data(), tokens_, q_heads_, dim_); }
    tensor_view<const float> k_view() const { return packed_tensor(k_.data(), tokens_, k_heads_, dim_); }

   private:
    void put(index_t tokens, index_t first, const view& x, std::vector<float>& to) {
      to.resize(static_cast<std::size_t>(tokens * x.heads * x.dim));
      of_->download(x, to.data() + first * x.heads * x.dim);
    }

    device_forward_pass* of_;
    std::vector<float> q_, k_;
    index_t tokens_ = 0, q_heads_ = 0, k_heads_ = 0, dim_ = 0;
  };

  /// x as floats, (rows, heads, dim).
  void download(const view& x, float* to) {
    const index_t n = x.rows * x.heads * x.dim;
    const T* from = x.data;
    if (x.head_stride != x.dim || x.row_stride != x.heads * x.dim) {
      std::vector<std::int32_t> number(static_cast<std::size_t>(std::max(x.rows, x.heads)));
      std::iota(number.begin(), number.end(), 0);
      index_.set(number);
      gathered_.reserve(n);
      machine_->rows(x.rows * x.heads,
                     device_kernels::gather_rows<T>{x.data, x.row_stride, x.head_stride, x.dim, index_.data(),
                                                    index_.data(), x.heads, gathered_.data()});
      from = gathered_.data();
    }
    staged_.resize(static_cast<std::size_t>(n));
    machine_->memory().to_host(staged_.data(), from, staged_.size() * sizeof(T));
    const index_t a_row = x.heads * x.dim;
    pool_->for_each(x.rows, [&](index_t r, int) { std::copy_n(staged_.data() + r * a_row, a_row, to + r * a_row); });
  }

  Machine* machine_;
  thread_pool* pool_;
  decoder_type decoder_;
  host_copy rows_, attended_;
  buffer<std::int32_t, typename Machine::memory_type> index_;
  buffer<T, typename Machine::memory_type> gathered_;
  std::vector<T> staged_;
};

}  // namespace qkgeom
