// SPDX-License-Identifier: MIT
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "capture/job/options.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/model/untrained.hpp"
#include "capture/text/tokenizer.hpp"
#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// A capture planned from config.json, before weights and documents are read.
struct prepared_capture {
  decoder_description model;
  capture_manifest manifest;                     ///< without documents and shards
  std::optional<std::int32_t> bos{};             ///< config.json's bos_token_id
  std::optional<untrained_weights> untrained{};  ///< instead of the model's, if the options say so
  protocol_facts protocol{};
};

/// Reads config.json in the model's folder, applies the options to it, and plans the capture. Notes go to `notes`.
/// Throws `error`.
prepared_capture prepare_capture(const capture_options& options, std::ostream& notes);

/// Adds the field `sinks` to the manifest of a model that has them: the logits of the captured query heads' sinks, by
/// layer.
void add_sinks(capture_manifest& m, const decoder_description& model, const checkpoint& weights);

/// The rotary embedding that acts on documents of `context` tokens, in words: scaling, the factors that it divides
/// frequencies by and the planes with the least and the largest, base, planes that turn less than once.
std::string rope_in_force(const decoder_description& model, index_t context);

/// One sentence if a scaling that depends on a document's length acts within `context` tokens, but on no document, the
/// longest of which has `longest`; else "".
std::string note_on_scaling(const rope_description& rope, index_t context, index_t longest);

/// One sentence if documents are cut beyond the context that the model was made for ("model_context" in the manifest);
/// else "".
std::string note_on_context(const capture_manifest& m);

/// Query buckets of "moments", "softmax" or "loss" in a manifest that has it.
bucket_edges grid_of(const capture_manifest& m, const char* statistic);

/// Opens the model's weights, or those that are drawn instead.
checkpoint open_weights(const prepared_capture& prepared, const std::filesystem::path& model);

/// Loads the tokenizer that the options name, or the one of `model`, with the BOS rule of the options.
tokenizer load_tokenizer(const input_options& inputs, const std::filesystem::path& model,
                         const prepared_capture& prepared);

}  // namespace qkgeom
