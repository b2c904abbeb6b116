// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "capture/forward/softmax_request.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

class checkpoint;
class moment_store;
struct decoder_description;
struct head_change;

/// How the forward pass rounds: all in f32, or as a model that was loaded in bf16 (every linear map, norm, rotary table
/// and sum is rounded to bf16; products are summed in f32).
enum class compute_type { f32, bf16 };
constexpr std::string_view name_of(compute_type t) { return t == compute_type::f32 ? "f32" : "bf16"; }

/// Whether a sink gets queries and keys as the attention sees them (after rotary embedding) or as projected.
enum class rope_stage { post, pre };

using token_span = std::span<const std::int32_t>;

/// A model's predictions of a document's tokens but the first, t = 0 .. tokens - 2.
struct token_predictions {
  std::vector<float> loss;          ///< -ln p(ids[t + 1] | ids[0 .. t]), nats
  std::vector<std::uint8_t> right;  ///< 1 if no other token is likelier than ids[t + 1]
};

/// Rows of a document's layer, by ascending positions.
struct row_choice {
  std::vector<std::int32_t> q, k;
};

/// Receivers of a forward pass over several documents. They are called layer after layer, in a layer document after
/// document, with q (tokens, query heads, head_dim) and k (tokens, key heads, head_dim), which are valid during the
/// call. Documents have the numbers of their places in the run; one without tokens is skipped. A sink that is not set
/// costs nothing.
struct batch_sinks {
  using layer_sink =
      std::function<void(std::size_t document, index_t layer, tensor_view<const float> q, tensor_view<const float> k)>;
  layer_sink rows{};  ///< at the stage asked for
  /// The queries of a document's layer whose softmax is measured, and what takes the results.
  std::function<std::optional<softmax_request>(std::size_t document, index_t layer)> measured{};
  softmax_sink softmax{};
  /// Predictions of every token but the first. All layers are run for it.
  std::function<void(std::size_t document, const token_predictions&)> losses{};
  /// Called once per layer of a document: the rows that `chosen` gets, at the stage asked for. Where there are none,
  /// `chosen` is not called.
  std::function<row_choice(std::size_t document, index_t layer)> choose{};
  layer_sink chosen{};
  /// Called after the last row of a document in a layer.
  std::function<void(std::size_t document, index_t layer)> passed{};
};

/// The forward pass of a decoder, on the CPU or on a device.
class forward_pass {
 public:
  virtual ~forward_pass() = default;

  /// Runs documents together through the layers up to the last captured one.
  virtual void run(std::span<const token_span> documents, rope_stage stage, const batch_sinks& sinks) = 0;
  /// Checks names and shapes of the weights that losses need.
  virtual void check_output() const = 0;
  /// The next runs change these heads. Sinks get queries and keys as they are before the change.
  virtual void change(std::vector<head_change> changes) = 0;
  /// True if the pass adds the moments of every token to `store` in all later runs, at their stage; else the caller
  /// takes them from `rows`. The store must live as long as the runs.
  virtual bool takes_moments(moment_store&) { return false; }
};

/// Makes the forward pass of a capture: layers up to `last_layer`. The checkpoint and the pool live longer.
using forward_pass_factory =
    std::function<std::unique_ptr<forward_pass>(const decoder_description& model, const checkpoint& weights,
                                                compute_type type, index_t last_layer, thread_pool& pool)>;

/// Makes forward passes on the CPU.
forward_pass_factory cpu_forward_pass();

}  // namespace qkgeom
