// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/forward/attention.hpp"
#include "capture/forward/feed_forward.hpp"
#include "capture/forward/forward_pass.hpp"
#include "capture/forward/layer_weights.hpp"
#include "capture/forward/losses.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/model/description.hpp"
#include "capture/model/head_changes.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Called for each layer in order with q (tokens, query heads, head_dim) and k (tokens, key heads, head_dim) of the
/// document. The values are valid during the call.
using layer_sink = std::function<void(index_t layer, tensor_view<const float> q, tensor_view<const float> k)>;

/// What a forward pass hands out; what is not set is not computed.
struct decoder_sinks {
  layer_sink rows{};      ///< at the stage asked for
  layer_sink attended{};  ///< queries and keys as they enter the attention, whatever the stage
  /// What the model makes of every token but the first. Every layer is run for it.
  std::function<void(const token_predictions&)> losses{};
};

/// The forward pass of a decoder on the CPU. Documents that run together share a visit of each layer's weights; results
/// depend neither on that nor on the number of threads.
class decoder : public forward_pass {
 public:
  /// Checks names and shapes of all weights that layers up to `last_layer` need. `model` and `pool` must live longer.
  decoder(decoder_description description, const checkpoint& model, compute_type type, index_t last_layer,
          thread_pool& pool, attention_kernel kernel = attention_kernel::best);

  /// Runs the layers up to `last_layer` on the token ids of some documents; of that one only queries and keys are
  /// computed. Takes the memory of one document as long as all of them.
  void run(std::span<const token_span> documents, rope_stage stage, const batch_sinks& sinks) override;
  /// One document.
  void run(token_span ids, rope_stage stage, const decoder_sinks& sinks);
  void run(token_span ids, rope_stage stage, layer_sink sink) {
    run(ids, stage, decoder_sinks{std::move(sink), {}, {}});
  }

  /// What the next runs change at some heads; queries and keys that sinks see are without it. Nothing at first.
  void change(std::vector<head_change> changes) { changes_ = std::move(changes); }

  /// Checks names and shapes of the weights that losses need: those of all layers, the last norm and the output matrix.
  void check_output() const override;

  const decoder_description& description() const { return description_; }

 private:
  /// Working memory of one thread.
  struct scratch {
    std::vector<float> x, y, z, wide;
    feed_forward_scratch feed_forward;
  };
  /// A document on its way through the layers.
  struct document_pass {
    std::size_t number;
    token_span ids;
    index_t tokens;
    std::vector<float> hidden, q;  // (tokens, hidden), (tokens, query heads, head_dim)
    key_buffer k, v;
    rope_table own_rope, own_local_rope;  // where the document's length is part of them
    const rope_table *rope, *local_rope;
  };
  /// Some rows of a document that go through the linear maps together.
  struct row_tile {
    document_pass* document;
    index_t first, rows;
  };

  document_pass begin(std::size_t number, token_span ids) const;
  void embed(document_pass& document) const;
  void make_tables(std::span<document_pass> documents);
  const float* normed(const std::string& name, const norm_weights& w, const row_tile& tile,
                      std::vector<float>& to) const;
  void norm_out(const std::string& name, const norm_weights& w, index_t rows, float* y) const;
  void project(const row_tile& tile, bool only_qk, scratch& s) const;
  void norm_qk(float* row) const;
  void rotate(const row_tile& tile, const layer_description& layer) const;
  void grow_queries(const row_tile& tile) const;
  void attend(document_pass& document, index_t layer) const;
  void finish_layer(const row_tile& tile, const layer_description& layer, scratch& s) const;
  void hand_out(std::span<document_pass> documents, index_t layer, const batch_sinks::layer_sink& sink) const;
  void hand_out_rows(std::span<document_pass> documents, index_t layer, const batch_sinks& sinks);
  weight_reading reading() const;
  bool rounds() const { return type_ == compute_type::bf16; }

  decoder_description description_;
  const checkpoint* checkpoint_;
  compute_type type_;
  index_t last_layer_;
  thread_pool* pool_;
  attention_kernel kernel_;
  std::string prefix_;
  layer_weights weights_;
  std::vector<head_change> changes_;
  rope_table rope_, local_rope_;
  std::vector<scratch> scratches_;
  std::vector<float> chosen_q_, chosen_k_;
};

}  // namespace qkgeom
