// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <iosfwd>
#include <vector>

#include "capture/job/run_capture.hpp"

namespace qkgeom {

struct evaluation_options {
  capture_options capture{};             ///< model, tokenizer, documents, context, dtype, RoPE, threads, out
  std::filesystem::path conditions{};    ///< see `read_conditions`; empty: the unchanged model alone
  std::filesystem::path restore_from{};  ///< model whose weights conditions restore; empty: no condition does
  std::filesystem::path records{};       ///< see `read_record_words`; empty: no lookup probes
  std::vector<index_t> distances{};      ///< distances of the probes, in tokens
  index_t trials = 20;                   ///< probes per kind and distance
  index_t bucket_size = 0;               ///< bucket of the loss by position, in tokens; 0: a sixteenth of the context
  std::uint64_t seed = 0;                ///< seed of the probes
};

/// Runs the documents and the probes through the unchanged model (condition "none") and under every condition. Writes
/// condition_loss.csv (loss: mean nats per token over positions [start, end)) and condition_probes.csv (asked: tokens
/// asked for; right: how many of them the model finds likeliest) into `capture.out`. Every condition sees the same
/// documents and probes. Notes go to `notes`; `make` makes the forward pass. Throws `error`.
void evaluate_model(const evaluation_options& options, std::ostream& notes,
                    const forward_pass_factory& make = cpu_forward_pass());

/// Prints conditions, documents, probes, tokens and peak memory of an evaluation, and its time at the speed that a
/// forward pass of `make` reaches now on the beginning of the first text. Throws `error`.
void plan_evaluation(const evaluation_options& options, std::ostream& out, std::ostream& notes,
                     const forward_pass_factory& make = cpu_forward_pass());

}  // namespace qkgeom
