// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "capture/evaluate/evaluate.hpp"
#include "capture/job/job.hpp"
#include "capture/on_cuda.hpp"

namespace qkgeom {

/// The command line of qkgeom-capture, parsed.
struct capture_arguments {
  capture_options options;
  bool plan = false;                       ///< print an estimate and stop
  std::optional<capture_options> whole{};  ///< what a short capture stands for, to compare the plans
  std::filesystem::path check{};           ///< compare with this reference and stop; empty: capture
  std::filesystem::path verify{};          ///< read this capture and stop; empty: capture
  bool cuda = false;                       ///< the forward pass runs on a GPU
  resident_layers resident = resident_layers::automatic;
};

/// Parses qkgeom-capture's command line; options override settings of the study that `--study` names. Prints --help and
/// then returns none. Throws `error` with one sentence on anything else that cannot run.
std::optional<capture_arguments> parse_arguments(int argc, const char* const* argv);

/// Parses qkgeom-evaluate's command line likewise.
std::optional<evaluation_options> parse_evaluation(int argc, const char* const* argv);

}  // namespace qkgeom
