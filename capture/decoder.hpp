// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/attention.hpp"
#include "capture/checkpoint.hpp"
#include "capture/description.hpp"
#include "capture/feed_forward.hpp"
#include "capture/layer_weights.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// How the forward pass rounds: all in f32, or as a model that was loaded in bf16 (every linear map, norm, rotary table
/// and sum is rounded to bf16; products are summed in f32).
enum class compute_type { f32, bf16 };
constexpr std::string_view name_of(compute_type t) { return t == compute_type::f32 ? "f32" : "bf16"; }

/// Whether a sink gets queries and keys as the attention sees them (after rotary embedding) or as projected.
enum class rope_stage { post, pre };

/// Called for each layer in order with q (tokens, query heads, head_dim) and k (tokens, key heads, head_dim) of the
/// document. The values are valid during the call.
using layer_sink = std::function<void(index_t layer, tensor_view<const float> q, tensor_view<const float> k)>;

/// What a forward pass hands out; what is not set is not computed.
struct decoder_sinks {
  layer_sink rows{};      ///< at the stage asked for
  layer_sink attended{};  ///< queries and keys as they enter the attention, whatever the stage
  /// Of each token but the last, -ln p(the next token). Every layer is run for it.
  std::function<void(std::span<const float> losses)> losses{};
};

/// The forward pass of a decoder on the CPU. Results do not depend on the number of threads. One document at a time.
class decoder {
 public:
  /// Checks names and shapes of all weights that layers up to `last_layer` need. `model` and `pool` must live longer.
  decoder(decoder_description description, const checkpoint& model, compute_type type, index_t last_layer,
          thread_pool& pool, attention_kernel kernel = attention_kernel::best);

  /// Runs the layers up to `last_layer` on token ids; of that one only queries and keys are computed.
  void run(std::span<const std::int32_t> ids, rope_stage stage, const decoder_sinks& sinks);
  void run(std::span<const std::int32_t> ids, rope_stage stage, layer_sink sink) {
    run(ids, stage, decoder_sinks{std::move(sink), {}, {}});
  }

  /// Checks names and shapes of the weights that losses need: those of all layers, the last norm and the output matrix.
  void check_output() const;

  const decoder_description& description() const { return description_; }

 private:
  /// Working memory of one thread.
  struct scratch {
    std::vector<float> x, y, z, wide;
    feed_forward_scratch feed_forward;
  };

  void embed(std::span<const std::int32_t> ids);
  void make_tables(index_t tokens);
  std::span<float> state(index_t token);
  const float* normed(const std::string& name, const norm_weights& w, index_t first, index_t rows,
                      std::vector<float>& to);
  void norm_out(const std::string& name, const norm_weights& w, index_t rows, float* y);
  void project(index_t tile, index_t tokens, bool only_qk, scratch& s);
  void norm_qk(float* row);
  void rotate(index_t tile, index_t tokens, const layer_description& layer);
  void grow_queries(index_t tile, index_t tokens);
  void finish_layer(index_t tile, index_t tokens, const layer_description& layer, scratch& s);
  bool rounds() const { return type_ == compute_type::bf16; }

  decoder_description description_;
  const checkpoint* checkpoint_;
  compute_type type_;
  index_t last_layer_;
  thread_pool* pool_;
  attention_kernel kernel_;
  std::string prefix_;
  layer_weights weights_;
  rope_table rope_, local_rope_;
  std::vector<float> hidden_, q_;  // (tokens, hidden), (tokens, query heads, head_dim)
  key_buffer k_, v_;
  std::vector<scratch> scratches_;
};

}  // namespace qkgeom
