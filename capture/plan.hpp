// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "capture/decoder.hpp"
#include "capture/description.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/sampling/tokens.hpp"

namespace qkgeom {

/// What is to be captured of a model.
struct plan_options {
  index_t max_length = 0;  ///< tokens a document is cut to; 0: the model's context
  token_sampler sampler{};
  std::optional<index_t> heads{};  ///< that many query heads, drawn over the layers; none: all
  std::vector<index_t> layers{};   ///< empty: all that have no sliding window
  bool include_windowed = false;   ///< layers with a sliding window too, when `layers` is empty
  std::uint64_t seed = 0;
  rope_stage stage = rope_stage::post;
  compute_type compute = compute_type::f32;
};

/// The manifest of a capture before its examples and shards: layers, heads and everything else that the options and the
/// model decide. Throws `error` on a layer that the model does not have and on an empty choice.
capture_manifest plan_capture(const decoder_description& model, const std::string& name,
                              const std::string& config_sha256, const plan_options& options);

/// Layers of a list such as "0,3,5-7"; "all" is the empty list. Throws `error` on anything else.
std::vector<index_t> parse_layers(const std::string& text);

}  // namespace qkgeom
