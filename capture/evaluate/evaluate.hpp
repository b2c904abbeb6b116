// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <iosfwd>
#include <vector>

#include "capture/job/job.hpp"

namespace qkgeom {

/// What a model is asked under which changes.
struct evaluation_options {
  capture_options capture{};           ///< model, tokenizer, documents, context, dtype, RoPE, threads, out
  std::filesystem::path conditions{};  ///< see `read_conditions`; empty: the model as it is alone
  std::filesystem::path records{};     ///< see `read_record_words`; empty: no lookup probes
  std::vector<index_t> distances{};    ///< of the probes, tokens
  index_t trials = 20;                 ///< probes of a kind and distance
  index_t bucket_size = 0;             ///< of the loss by position, tokens; 0: a sixteenth of the context
  std::uint64_t seed = 0;              ///< of the probes
};

/// Runs the documents and the probes through the model as it is (condition "none") and under every condition, and
/// writes condition_loss.csv (condition, document, start, end, tokens, loss: mean nats a token over the stretch) and
/// condition_probes.csv (condition, probe, distance, trial, asked, right: tokens asked for, and how many the model
/// names first) into `capture.out`. Every condition sees the same documents and probes. Notes go to `notes`. Throws
/// `error`.
void evaluate_model(const evaluation_options& options, std::ostream& notes);

}  // namespace qkgeom
