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
        rows_(*this),
        chosen_(*this),
        heads_(m.memory(), 0),
        places_(m.memory(), 0),
        positions_(m.memory(), 0),
        gathered_(m.memory(), 0) {}

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
    device_sinks<T, space> on_device;
    on_device.rows = [&](std::size_t i, index_t layer, index_t first, view q, view k) {
      const auto tokens = static_cast<index_t>(documents[i].size());
      for (const auto& c : consumers_)
        if (c.rows) c.rows(i, layer, first, q, k);
      if (sinks.rows) rows_.add(tokens, first, q, k);
      if (sinks.chosen) add_chosen(sinks, i, layer, first, q, k);
      if (first + q.rows < tokens) return;
      if (sinks.rows) sinks.rows(i, layer, rows_.q_view(), rows_.k_view());
      if (sinks.chosen && chosen_.rows() > 0) sinks.chosen(i, layer, chosen_.q_view(), chosen_.k_view());
    };
    on_device.passed = [&](std::size_t i, index_t layer) {
      for (const auto& c : consumers_)
        if (c.passed) c.passed(i, layer);
      if (sinks.passed) sinks.passed(i, layer);
    };
    on_device.losses = sinks.losses;
    on_device.measured = sinks.measured;
    on_device.softmax = sinks.softmax;
    decoder_.run(documents, stage, on_device);
  }

  void check_output() const override { decoder_.check_output(); }
  void change(std::vector<head_change> changes) override { decoder_.change(std::move(changes)); }

 private:
  /// Queries and keys of a document's layer, or some of their rows, as floats (rows, heads, dim).
  class host_copy {
   public:
    explicit host_copy(device_forward_pass& of) : of_(&of) {}

    /// Adds a chunk of a document of `tokens` tokens.
    void add(index_t tokens, index_t first, const view& q, const view& k) {
      q_.resize(tokens, q), k_.resize(tokens, k);
      of_->download(q, {}, q_.row(first));
      of_->download(k, {}, k_.row(first));
    }
    void begin(const row_choice& choice, const view& q, const view& k) {
      q_.resize(static_cast<index_t>(choice.q.size()), q);
      k_.resize(static_cast<index_t>(choice.k.size()), k);
    }
    /// Copies the rows of x at `places` to the rows from `first_row` on.
    void add_q(const view& x, const std::vector<std::int32_t>& places, index_t first_row) {
      of_->download(x, places, q_.row(first_row));
    }
    void add_k(const view& x, const std::vector<std::int32_t>& places, index_t first_row) {
      of_->download(x, places, k_.row(first_row));
    }
    index_t rows() const { return q_.rows + k_.rows; }
    tensor_view<const float> q_view() const { return q_.view(); }
    tensor_view<const float> k_view() const { return k_.view(); }

   private:
    struct side {
      std::vector<float> values;
      index_t rows = 0, heads = 0, dim = 0;

      void resize(index_t n, const tensor_view<const T, space>& like) {
        rows = n, heads = like.heads, dim = like.dim;
        values.resize(n * heads * dim);
      }
      float* row(index_t i) { return values.data() + i * heads * dim; }
      tensor_view<const float> view() const { return packed_tensor(values.data(), rows, heads, dim); }
    };
    device_forward_pass* of_;
    side q_, k_;
  };

  void add_chosen(const batch_sinks& sinks, std::size_t document, index_t layer, index_t first, const view& q,
                  const view& k) {
    if (first == 0) {
      choice_ = sinks.choose(document, layer);
      chosen_.begin(choice_, q, k);
    }
    const auto here = [&](const std::vector<std::int32_t>& positions) {
      const auto begin = std::lower_bound(positions.begin(), positions.end(), first);
      const auto end = std::lower_bound(begin, positions.end(), first + q.rows);
      std::pair<std::vector<std::int32_t>, index_t> places{{begin, end}, begin - positions.begin()};
      for (auto& p : places.first) p -= static_cast<std::int32_t>(first);
      return places;
    };
    const auto [q_places, first_q] = here(choice_.q);
    const auto [k_places, first_k] = here(choice_.k);
    if (!q_places.empty()) chosen_.add_q(q, q_places, first_q);
    if (!k_places.empty()) chosen_.add_k(k, k_places, first_k);
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
  host_copy rows_, chosen_;
  row_choice choice_;
  buffer<std::int32_t, typename Device::memory_type> heads_, places_, positions_;
  buffer<T, typename Device::memory_type> gathered_;
  std::vector<T> staged_;
};

}  // namespace qkgeom
