// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "capture/forward/forward_pass.hpp"
#include "capture/job/documents.hpp"
#include "capture/job/live_analysis.hpp"
#include "capture/job/plan.hpp"
#include "capture/job/stores/moment_function.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Which documents begin with the beginning-of-text token: what tokenizer.json says, all of them (once), none.
enum class bos_rule { as_tokenizer, prepend, none };

/// Where a capture's settings come from, and what they were made for. Names are the hub's; empty and 0: not said.
struct study_facts {
  std::string name{}, model{}, tokenizer{}, documents{};
  index_t n_layers = 0, n_query_heads = 0, n_key_heads = 0;
};

/// Options of a whole capture.
struct capture_options {
  std::filesystem::path model;        ///< folder with config.json and weights
  std::filesystem::path tokenizer{};  ///< file or folder; empty: the model's folder, else the folder above
  std::filesystem::path out;
  std::string rope_scaling{};          ///< as `with_rope_scaling` takes it; empty: config.json's
  std::optional<double> rope_theta{};  ///< base of the rotary frequencies; none: config.json's
  bos_rule bos = bos_rule::as_tokenizer;
  std::string family{}, revision{};  ///< kept in the manifest where not empty
  study_facts study{};
  document_options documents{};
  plan_options plan{};
  bool moments = false;  ///< moments of every token of the captured heads, beside the rows
  bool softmax = false;  ///< what the softmax of the captured heads gives: mass at the beginning, by distance, entropy
  bool loss = false;     ///< the loss of every token but a document's first, by position
  /// What is analysed of every document while it passes; rows of every token (`sampler_kind::all`) are then not kept.
  std::optional<document_analysis_options> analyse{};
  index_t statistics_bucket_size = 0;  ///< of moments, softmax, loss, analyses, tokens; 0: analyses' default
  index_t batch_tokens = 8192;         ///< documents of a shard with that many in all share a visit of each layer
  int threads = 0;                     ///< 0: as many as the machine has cores
  bool resume = false;
};

/// What a capture computes with, given by who runs it.
struct capture_backend {
  moment_function moments{};         ///< needed where the options ask for moments
  live_analysis_factory analyses{};  ///< needed where the options ask for analyses
  forward_pass_factory forward{};    ///< none: `decoder`, on the CPU
};

/// Whether a capture keeps rows: analyses of every token leave nothing to be kept of every token.
inline bool keeps_rows(const capture_options& o) { return !o.analyse || o.plan.sampler.kind != sampler_kind::all; }

/// What a capture did.
struct capture_summary {
  index_t documents = 0, empty = 0, tokens = 0;  ///< tokens of this run
  index_t rows = 0, shards = 0;                  ///< of the whole capture, with what an earlier run wrote
  std::uintmax_t bytes = 0;
  double seconds = 0;              ///< of the forward passes and writing
  double loss = 0, last_loss = 0;  ///< nats a token in this run, over all and over the last fifth of the context
  double loss_tokens = 0, last_loss_tokens = 0;
  bool was_complete = false;
};

/// Text and a checkpoint in, a capture folder out. A shard holds a few documents and is written whole; progress.json
/// names the complete ones until manifest.json ends the capture. With `resume` the complete shards are kept, and the
/// folder is at the end byte for byte what an undisturbed run writes. Notes (documents without tokens) go to `notes`.
/// Throws `error`.
capture_summary run_capture(const capture_options& options, std::ostream& notes, const capture_backend& backend = {});

}  // namespace qkgeom
