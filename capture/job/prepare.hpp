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
  bool old_mistral = false;                      ///< a Mistral's config.json, written by transformers before 5
  std::optional<untrained_weights> untrained{};  ///< replaces the model's weights if the options say so
  protocol_facts protocol{};
};

/// Reads config.json in the model's folder, applies the options to it, and plans the capture. Notes go to `notes`.
/// Throws `error`.
prepared_capture prepare_capture(const capture_options& options, std::ostream& notes);

/// Adds the manifest's fields of the weights, in a model that has them: the logits of the captured query heads' sinks,
/// by layer, and the weights of norms after the rotation.
void add_weights(capture_manifest& m, const decoder_description& model, const checkpoint& weights);

/// Describes the rotary embedding of documents of these lengths (empty: of `context` tokens): scaling, its least and
/// largest factors with their planes, base, and the planes that rotate by less than one turn in `context` tokens.
std::string rope_in_force(const decoder_description& model, index_t context, const std::vector<index_t>& lengths = {});

/// Returns one sentence if a scaling that depends on the length of documents acts within `context` tokens but on no
/// document (the longest has `longest` tokens); else an empty text.
std::string note_on_scaling(const rope_description& rope, index_t context, index_t longest);

/// Returns one sentence if documents are cut beyond the context that the model was made for ("model_context" in the
/// manifest); else an empty text.
std::string note_on_context(const capture_manifest& m);

/// Returns the query buckets of "moments", "softmax" or "loss"; the manifest must have the field.
bucket_edges grid_of(const capture_manifest& m, const char* statistic);

/// Opens the model's weights, or the ones drawn in their place.
checkpoint open_weights(const prepared_capture& prepared, const std::filesystem::path& model);

/// Loads the tokenizer of the options, else of `model`, with the BOS rule of the options, and keeps notes on it.
tokenizer load_tokenizer(const input_options& inputs, const std::filesystem::path& model, prepared_capture& prepared,
                         std::ostream& notes);

/// Writes a note to `notes`, and keeps it in the manifest for the programs that read the capture.
void keep_note(capture_manifest& m, std::ostream& notes, const char* kind, const std::string& sentence);

}  // namespace qkgeom
