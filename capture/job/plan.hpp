// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "capture/job/options.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// Chooses the layers from which heads are taken, ascending. Throws `error` on a layer that the model does not have or
/// that cannot be captured, on layers whose heads differ in size or number, and if no layer is left.
std::vector<index_t> choose_layers(const decoder_description& model, const selection_options& options);

/// Names the layers that are left out though nobody asked for it, and why; empty if there are none.
std::string left_out_text(const decoder_description& model, const selection_options& options);

/// Counts the heads of `options.head_list` that are left out because their layers attend to images alone or have a
/// sliding window.
index_t heads_without_data(const decoder_description& model, const selection_options& options);

/// Returns the tokens at which documents are cut.
inline index_t context_of(const decoder_description& model, const selection_options& options) {
  return options.max_length > 0 ? options.max_length : model.context;
}

/// Returns the token sampler with the default bucket size filled in.
inline token_sampler sampler_of(const decoder_description& model, const selection_options& options) {
  token_sampler sampler = options.sampler;
  if (sampler.bucket_size == 0) sampler.bucket_size = capture_manifest::sixteenth_of(context_of(model, options));
  return sampler;
}

/// Plans a capture: its manifest without documents and shards. Throws `error` on an unknown layer or head and if
/// nothing is chosen.
capture_manifest plan_capture(const decoder_description& model, const std::string& name,
                              const std::string& config_sha256, const selection_options& options,
                              compute_type compute = compute_type::f32);

/// Describes the heads that the options ask for as those of a model's attention, for the functions here: the model
/// itself, or its indexers. Throws `error` if it has none.
decoder_description captured_heads(const decoder_description& model, const selection_options& options);

/// Lists the layers whose heads differ from the model's (`layer_description::heads`).
std::vector<index_t> layers_with_other_heads(const decoder_description& model);

/// Writes ascending numbers of layers or planes as `parse_layers` reads them: "0,3,5-7".
std::string ranges_text(const std::vector<index_t>& numbers);

/// Parses a list of layers such as "0,3,5-7"; "all" gives an empty list. Throws `error` on anything else.
std::vector<index_t> parse_layers(const std::string& text);

}  // namespace qkgeom
