// SPDX-License-Identifier: MIT
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/rope.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// What one decoder layer does differently from the others.
struct layer_description {
  bool rope = true;
  std::optional<index_t> window{};  ///< sliding window in tokens; none: full causal attention
};

enum class activation { silu };

/// A decoder as data: all that the forward pass needs to know about a model besides its weights. Pre-norm layers,
/// RMS norms, gated feed-forward, grouped-query attention with scale head_dim^-1/2.
struct decoder_description {
  std::string model_type;
  index_t hidden = 0, feed_forward = 0, vocabulary = 0;
  index_t query_heads = 0, key_heads = 0, head_dim = 0;
  index_t context = 0;  ///< tokens, max_position_embeddings
  double norm_eps = 1e-6;
  bool tied = false;  ///< the output matrix is the embedding; no capture reads it
  bool qkv_bias = false, output_bias = false, feed_forward_bias = false;
  activation act = activation::silu;
  rope_description rope;
  std::vector<layer_description> layers;
  std::string prefix = "model.";  ///< of the tensors' names in the checkpoint

  index_t n_layers() const { return static_cast<index_t>(layers.size()); }
};

/// One line of the table of families: how a model_type's config.json becomes a description.
struct decoder_family {
  std::string_view model_type;
  decoder_description (*read)(const json_fields& config);
};

/// Describes the model of a parsed config.json. Throws `error` that names an unknown family, an unsupported feature or
/// the bad field.
decoder_description read_description(const nlohmann::json& config);

}  // namespace qkgeom
