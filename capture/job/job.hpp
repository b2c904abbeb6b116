// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "capture/forward/forward_pass.hpp"
#include "capture/job/documents.hpp"
#include "capture/job/plan.hpp"
#include "capture/job/process_group.hpp"
#include "capture/job/stores/moment_function.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// Which documents begin with the beginning-of-text token: as the tokenizer decides, all (with one), or none.
enum class bos_rule { as_tokenizer, prepend, none };

/// The study that a capture follows, and the model it was made for. Names are the hub's; empty and 0: unknown.
struct study_facts {
  std::string name{}, model{}, tokenizer{}, documents{};
  index_t n_layers = 0, n_query_heads = 0, n_key_heads = 0;
};

/// Options of a capture.
struct capture_options {
  std::filesystem::path model;        ///< folder with config.json and weights, or what `find_gguf` finds
  std::filesystem::path tokenizer{};  ///< file or folder; empty: the model's folder, else the folder above
  std::filesystem::path out;
  std::string name{};                  ///< of the model; empty: that on the hub, else that of its folder
  std::string rope_scaling{};          ///< see `with_rope_scaling`; empty: config.json's
  std::optional<double> rope_theta{};  ///< base of the rotary frequencies; none: config.json's
  bos_rule bos = bos_rule::as_tokenizer;
  std::optional<std::uint64_t> untrained{};  ///< seed of weights that are drawn instead of read; none: the model's
  std::string family{}, revision{};          ///< labels for the manifest; empty: none
  study_facts study{};
  index_t short_of = 0;  ///< tokens of the context that this capture stands for (`shorten`); 0: its own
  document_options documents{};
  plan_options plan{};
  bool moments = false;  ///< moments of every token of the captured heads, beside the rows
  bool softmax = false;  ///< attention mass on the first tokens and by distance, and entropy, of the captured heads
  bool loss = false;     ///< the loss of every token but a document's first, by position
  index_t statistics_bucket_size = 0;  ///< tokens, for the three above; 0: `usual_bucket_size`
  index_t batch_tokens = 8192;         ///< documents of a shard with that many together are a batch
  int threads = 0;                     ///< 0: one per core
  bool resume = false;
  capture_part part{};  ///< of 1: the whole capture
};

/// Backends of a capture, from the program that runs it.
struct capture_backend {
  moment_function moments{};  ///< needed where the options ask for moments
  forward_pass_factory forward = cpu_forward_pass();
};

/// Makes of a capture at length the short one that `what_if` carries to that length: documents cut at `tokens`, rows
/// from before the rotary embedding, moments of every token, and as many rows in as many buckets. Throws `error` unless
/// the options say a length and `tokens` is below it.
void shorten(capture_options& options, index_t tokens);

/// Summary of a capture run.
struct capture_summary {
  index_t documents = 0, empty = 0, tokens = 0;  ///< tokens of this run
  index_t rows = 0, shards = 0;                  ///< of the whole capture, earlier runs included
  std::uintmax_t bytes = 0;
  double seconds = 0;              ///< of forward passes and writing
  double loss = 0, last_loss = 0;  ///< nats per token in this run; `last`: last fifth of the context
  double loss_tokens = 0, last_loss_tokens = 0;
  bool was_complete = false;
  std::string note{};  ///< `note_on_context`
  std::string rope{};  ///< `rope_in_force`
};

/// Runs documents through a checkpoint and writes a capture folder. Each shard is written whole; progress.json lists
/// the complete ones until manifest.json ends the capture. With `resume` these are kept, and the folder ends byte for
/// byte as an undisturbed run writes it. Notes (for example on empty documents) go to `notes`. Throws `error`.
///
/// The processes of `group` share out the documents and write one folder, all with the same arguments; its bytes do not
/// depend on their number. The summary is that of all, on rank 0. A `part` has the bytes that the whole has for its
/// documents; manifest.json names the part.
capture_summary run_capture(const capture_options& options, std::ostream& notes, const capture_backend& backend,
                            process_group& group);
/// This process alone.
capture_summary run_capture(const capture_options& options, std::ostream& notes, const capture_backend& backend = {});

}  // namespace qkgeom
