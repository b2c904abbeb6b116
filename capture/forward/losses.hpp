// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "capture/forward/layer_weights.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom {

/// The tensor that turns hidden states into logits.
struct output_matrix {
  std::string name;
  std::vector<index_t> shape;  ///< (words, hidden)
};
/// The first of the description's names that the checkpoint has; if it has none and the description says that the
/// output is tied, the embedding. Throws if there is neither, if it or the last norm has a wrong shape, or if the model
/// caps its logits.
output_matrix find_output(const decoder_description& model, const checkpoint& weights, const std::string& prefix);

/// Words of the vocabulary whose logits are made together.
inline constexpr index_t vocabulary_piece = 2048;

/// A document's token ids and the last layer's hidden states, (tokens, hidden).
struct token_states {
  std::span<const std::int32_t> ids;
  std::span<float> hidden;
};

/// What a model makes of a document's tokens but the first, t = 0 .. tokens - 2.
struct token_predictions {
  std::vector<float> loss;          ///< -ln p(ids[t + 1] | ids[0 .. t]), nats
  std::vector<std::uint8_t> right;  ///< 1 if no other token is likelier than ids[t + 1]
};

/// Predictions of each document from its hidden states, which are normed in place. Logits are made a piece of the
/// vocabulary at a time, so that memory holds that piece of the output matrix and never tokens x vocabulary. Read as a
/// model in bf16, its logits are rounded too.
std::vector<token_predictions> token_losses(const decoder_description& model, const checkpoint& weights,
                                            const std::string& prefix, std::span<const token_states> documents,
                                            const weight_reading& how, thread_pool& pool);

}  // namespace qkgeom
