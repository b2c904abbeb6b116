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

/// How the forward pass rounds: all in f32, or like a model loaded in bf16 (every linear map, norm, rotary table and
/// sum is rounded to bf16; products are summed in f32).
enum class compute_type { f32, bf16 };
constexpr std::string_view name_of(compute_type t) { return t == compute_type::f32 ? "f32" : "bf16"; }

/// Whether a sink gets queries and keys after the rotary embedding, as the attention sees them, or before.
enum class rope_stage { post, pre };

using token_span = std::span<const std::int32_t>;

/// Predictions of all tokens of a document but the first, t = 0 .. tokens - 2.
struct token_predictions {
  std::vector<float> loss;          ///< -ln p(ids[t + 1] | ids[0 .. t]), nats
  std::vector<std::uint8_t> right;  ///< 1 if no other token is likelier than ids[t + 1]
};

/// Rows to keep of a document's layer, by ascending position.
struct row_choice {
  std::vector<std::int32_t> q, k;
};

/// Receivers of a forward pass that get no rows, see `batch_sinks`.
struct document_sinks {
  /// Chooses the queries of a document's layer whose softmax is measured; `softmax` takes the results.
  std::function<std::optional<softmax_request>(std::size_t document, index_t layer)> measured{};
  softmax_sink softmax{};
  /// Takes the predictions of every token but the first; all layers run for them.
  std::function<void(std::size_t document, const token_predictions&)> losses{};
  /// Called after the last row of a document in a layer.
  std::function<void(std::size_t document, index_t layer)> passed{};
};

/// Receivers of a forward pass over several documents. They are called layer after layer, in a layer document after
/// document, with q (tokens, query heads, head_dim) and k (tokens, key heads, head_dim), which are valid during the
/// call. Documents are numbered by their places in the run; one without tokens is skipped. An empty sink costs nothing.
struct batch_sinks : document_sinks {
  using layer_sink =
      std::function<void(std::size_t document, index_t layer, tensor_view<const float> q, tensor_view<const float> k)>;
  layer_sink rows{};  ///< at the stage of the run
  /// Chooses the rows that `chosen` gets, at the stage of the run; called once per layer of a document. Without rows
  /// `chosen` is not called.
  std::function<row_choice(std::size_t document, index_t layer)> choose{};
  layer_sink chosen{};
};

/// The forward pass of a decoder, on the CPU or on a device.
class forward_pass {
 public:
  virtual ~forward_pass() = default;

  /// Runs documents together through the layers up to the last captured one.
  virtual void run(std::span<const token_span> documents, rope_stage stage, const batch_sinks& sinks) = 0;
  /// Checks names and shapes of the weights that losses need.
  virtual void check_output() const = 0;
  /// Changes these heads in later runs. Sinks get queries and keys as they are before the change.
  virtual void change(std::vector<head_change> changes) = 0;
  /// Returns true if the pass adds the moments of every token to `store` in all later runs, at their stage; else the
  /// caller computes them from `rows`. The store must outlive the runs.
  virtual bool takes_moments(moment_store&) { return false; }
};

/// Makes the forward pass of a capture, layers up to `last_layer`. Checkpoint and pool must outlive it.
using forward_pass_factory =
    std::function<std::unique_ptr<forward_pass>(const decoder_description& model, const checkpoint& weights,
                                                compute_type type, index_t last_layer, thread_pool& pool)>;

forward_pass_factory cpu_forward_pass();

}  // namespace qkgeom
