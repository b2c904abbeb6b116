// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "capture/evaluate/evaluate.hpp"
#include "capture/job/job.hpp"
#include "capture/on_cuda.hpp"

namespace qkgeom {

/// What qkgeom-capture was asked for on its command line.
struct capture_arguments {
  capture_options options;
  bool plan = false;  ///< print what would be captured, and stop
  bool cuda = false;  ///< the forward pass runs on a GPU
  resident_layers resident = resident_layers::automatic;
};

/// Parses a command line: settings of the study that `--study` names, and options, which go before the study's. None
/// after --help, which is printed. Throws `error` with one sentence on everything else that cannot be run.
std::optional<capture_arguments> parse_arguments(int argc, const char* const* argv);

/// The same of qkgeom-evaluate.
std::optional<evaluation_options> parse_evaluation(int argc, const char* const* argv);

}  // namespace qkgeom
