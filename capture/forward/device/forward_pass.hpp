// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "capture/forward/decoder.hpp"
#include "capture/forward/forward_pass.hpp"

namespace qkgeom {

/// The forward pass of a capture on a device. Sinks on the host get a copy of each layer of a document.
template <class Device, class T>
class device_forward_pass : public forward_pass {
 public:
  using decoder_type = decoder<Device, T>;
  static constexpr memory_space space = decoder_type::space;
  using view = tensor_view<const T, space>;

  /// Takes arguments that must outlive the pass.
  device_forward_pass(Device& m, const decoder_description& description, const checkpoint& model, index_t last_layer,
                      thread_pool& pool, const decoder_options& options)
      : device_(&m),
        pool_(&pool),
        decoder_(m, description, model, last_layer, pool, options),
        heads_(m),
        places_(m),
        positions_(m),
        gathered_(m) {}

  /// Adds the moments of every token to `store`, a moment_store, at the stage of the runs. `moments(side, rows,
  /// position)` computes the moments of each head in the memory of the rows.
  template <class Store, class Moments>
  void bring_moments(Store& store, Moments moments) {
    device_sinks<T, space> consumer;
    consumer.rows = [this, &store, moments](std::size_t, index_t layer, index_t first, view q, view k) {
      store.add_chunk(layer, first, q, k, [&](const char* side, const view& rows, index_t first_row) {
        return moments(side, rows, positions(first_row, rows.rows));
      });
    };
    consumer.passed = [&store](std::size_t, index_t layer) { store.end_document(layer); };
    consumers_.push_back(std::move(consumer));
  }

  /// Returns the numbers first, first + 1, .. on the device, valid until the next call.
  vector_view<const std::int32_t, space> positions(index_t first, index_t count) {
    if (positions_.size() < first + count) {
      std::vector<std::int32_t> all(first + count);
      std::iota(all.begin(), all.end(), 0);
      positions_.set(all);
    }
    return {positions_.data() + first, count};
  }

  void run(std::span<const token_span> documents, rope_stage stage, const batch_sinks& sinks) override {
    device_sinks<T, space> on_device{sinks, {}};
    on_device.rows = [&](std::size_t i, index_t layer, index_t first, view q, view k) {
      const auto tokens = static_cast<index_t>(documents[i].size());
      for (const auto& c : consumers_)
        if (c.rows) c.rows(i, layer, first, q, k);
      if (sinks.rows) add(tokens, first, q, q_), add(tokens, first, k, k_);
      if (sinks.chosen && first == 0) choice_ = sinks.choose(i, layer);
      if (sinks.chosen) add_chosen(choice_.q, first, q, chosen_q_), add_chosen(choice_.k, first, k, chosen_k_);
      if (first + q.rows < tokens) return;
      if (sinks.rows) sinks.rows(i, layer, q_, k_);
      if (sinks.chosen && chosen_q_.rows + chosen_k_.rows > 0) sinks.chosen(i, layer, chosen_q_, chosen_k_);
    };
    on_device.passed = [&](std::size_t i, index_t layer) {
      for (const auto& c : consumers_)
        if (c.passed) c.passed(i, layer);
      if (sinks.passed) sinks.passed(i, layer);
    };
    decoder_.run(documents, stage, on_device);
  }

  void check_output() const override { decoder_.check_output(); }
  void change(std::vector<head_change> changes) override { decoder_.change(std::move(changes)); }

 private:
  /// Queries or keys of a document's layer, or some of their rows, as floats (rows, heads, dim).
  struct host_copy {
    std::vector<float> values;
    index_t rows = 0, heads = 0, dim = 0;

    void resize(index_t n, const view& like) {
      rows = n, heads = like.heads, dim = like.dim;
      values.resize(n * heads * dim);
    }
    float* row(index_t i) { return values.data() + i * heads * dim; }
    operator tensor_view<const float>() const { return packed_tensor(values.data(), rows, heads, dim); }
  };

  /// Adds a chunk of a document of `tokens` tokens.
  void add(index_t tokens, index_t first, const view& x, host_copy& to) {
    to.resize(tokens, x);
    download(x, {}, to.row(first));
  }
  /// Adds the rows of a chunk that are at the chosen positions of their document.
  void add_chosen(const std::vector<std::int32_t>& positions, index_t first, const view& x, host_copy& to) {
    if (first == 0) to.resize(static_cast<index_t>(positions.size()), x);
    const auto begin = std::lower_bound(positions.begin(), positions.end(), first);
    std::vector<std::int32_t> places(begin, std::lower_bound(begin, positions.end(), first + x.rows));
    for (auto& p : places) p -= static_cast<std::int32_t>(first);
    if (!places.empty()) download(x, places, to.row(begin - positions.begin()));
  }

  /// Copies x to the host as floats (rows, heads, dim): all rows, or those at `places`.
  void download(const view& x, const std::vector<std::int32_t>& places, float* to) {
    const index_t rows = places.empty() ? x.rows : static_cast<index_t>(places.size()), a_row = x.heads * x.dim;
    const T* from = x.data;
    if (!places.empty() || x.head_stride != x.dim || x.row_stride != a_row) {
      if (heads_.size() < std::max(x.rows, x.heads)) {  // 0, 1, 2, ..., which stay
        std::vector<std::int32_t> number(std::max(x.rows, x.heads));
        std::iota(number.begin(), number.end(), 0);
        heads_.set(number);
      }
      if (!places.empty()) places_.set(places);
      gathered_.reserve(rows * a_row);
      device_->rows(rows * x.heads, device_kernels::gather_rows<T>{x.data, x.row_stride, x.head_stride, x.dim,
                                                                   places.empty() ? heads_.data() : places_.data(),
                                                                   heads_.data(), x.heads, gathered_.data()});
      from = gathered_.data();
    }
    staged_.resize(rows * a_row);
    device_->memory().to_host(staged_.data(), from, staged_.size() * sizeof(T));
    const auto widen = [&](index_t r, int) { std::copy_n(staged_.data() + r * a_row, a_row, to + r * a_row); };
    // The pool may be reading the weights of the next layer; few rows do not wait for it.
    if (rows * a_row > (index_t{1} << 22))
      pool_->for_each(rows, widen);
    else
      for (index_t r = 0; r < rows; ++r) widen(r, 0);
  }

  Device* device_;
  thread_pool* pool_;
  decoder_type decoder_;
  std::vector<device_sinks<T, space>> consumers_;  // of rows on the device, beside the sinks on the host
  host_copy q_, k_, chosen_q_, chosen_k_;
  row_choice choice_;
  device_buffer<Device, std::int32_t> heads_, places_, positions_;
  device_buffer<Device, T> gathered_;
  std::vector<T> staged_;
};

}  // namespace qkgeom
