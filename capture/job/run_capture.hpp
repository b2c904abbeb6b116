// SPDX-License-Identifier: MIT
#pragma once

#include <iosfwd>
#include <string>

#include "capture/forward/forward_pass.hpp"
#include "capture/job/options.hpp"
#include "capture/job/process_group.hpp"
#include "capture/job/stores/moment_function.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Backends of a capture, which the program chooses.
struct capture_backend {
  moment_function moments{};  ///< needed if the options ask for moments
  forward_pass_factory forward = cpu_forward_pass();
  std::string arithmetic{};  ///< a note on products and kernels before the first document; may be empty
};

struct capture_summary {
  index_t documents = 0, empty = 0, tokens = 0;  ///< tokens of this run
  index_t rows = 0, shards = 0;                  ///< of the whole capture, with earlier runs
  std::uintmax_t bytes = 0;
  double seconds = 0;              ///< of forward passes and writing
  double loss = 0, last_loss = 0;  ///< nats per token in this run; `last_loss`: over the last fifth of the context
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
/// depend on their number. Rank 0 returns the summary of all. A part has the bytes of the whole capture for its
/// documents; its manifest.json names it.
capture_summary run_capture(const capture_options& options, std::ostream& notes, const capture_backend& backend,
                            process_group& group);
/// Runs the capture on this process alone.
capture_summary run_capture(const capture_options& options, std::ostream& notes, const capture_backend& backend = {});

}  // namespace qkgeom
