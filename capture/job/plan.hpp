// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "capture/forward/forward_pass.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/sampling/heads.hpp"
#include "qkgeom/sampling/tokens.hpp"

namespace qkgeom {

/// What is to be captured of a model.
struct plan_options {
  index_t max_length = 0;                   ///< tokens a document is cut to; 0: the model's context
  token_sampler sampler{.bucket_size = 0};  ///< a bucket size of 0: a sixteenth of the context
  std::optional<index_t> heads{};           ///< that many query heads, drawn over the layers; none: all
  std::vector<head_id> head_list{};         ///< these query heads, ascending, instead of a draw
  std::vector<index_t> layers{};            ///< empty: all that have no sliding window
  bool include_windowed = false;            ///< layers with a sliding window too, when `layers` is empty
  bool same_positions = false;              ///< keys at the positions of the queries, not at a draw of their own
  std::uint64_t seed = 0;
  rope_stage stage = rope_stage::post;
  compute_type compute = compute_type::f32;
};

/// Layers that are candidates by the options, ascending. Throws `error` on a layer that the model does not have and if
/// there is none.
std::vector<index_t> choose_layers(const decoder_description& model, const plan_options& options);

/// How many heads of `options.head_list` stand in layers that are no candidates: they attend to images alone, or have a
/// sliding window. They are passed over.
index_t heads_without_data(const decoder_description& model, const plan_options& options);

/// Tokens a document is cut to.
inline index_t context_of(const decoder_description& model, const plan_options& options) {
  return options.max_length > 0 ? options.max_length : model.context;
}

/// How tokens are drawn, with the bucket size that the options leave open.
inline token_sampler sampler_of(const decoder_description& model, const plan_options& options) {
  token_sampler sampler = options.sampler;
  if (sampler.bucket_size == 0) sampler.bucket_size = capture_manifest::sixteenth_of(context_of(model, options));
  return sampler;
}

/// The manifest of a capture before its documents and shards: layers, heads and everything else that the options and
/// the model decide. Throws `error` on a layer or head that the model does not have and on an empty choice.
capture_manifest plan_capture(const decoder_description& model, const std::string& name,
                              const std::string& config_sha256, const plan_options& options);

/// Layers of a list such as "0,3,5-7"; "all" is the empty list. Throws `error` on anything else.
std::vector<index_t> parse_layers(const std::string& text);

}  // namespace qkgeom
