// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "capture/evaluate/evaluate.hpp"
#include "capture/job/run_capture.hpp"
#include "capture/on_cuda.hpp"

namespace qkgeom {

/// Where the forward pass runs.
struct device_choice {
  bool cuda = false;
  resident_layers resident = resident_layers::automatic;  ///< on a GPU
};

/// The command line of qkgeom capture, parsed.
struct capture_arguments {
  capture_options options;
  bool plan = false;                       ///< print an estimate and stop
  std::optional<capture_options> whole{};  ///< the capture that a short one stands for, to compare the plans
  std::filesystem::path check{};           ///< compare with this reference and stop; empty: capture
  std::filesystem::path verify{};          ///< read this capture and stop; empty: capture
  device_choice device{};
};

/// The command line of qkgeom evaluate, parsed.
struct evaluation_arguments {
  evaluation_options options;
  bool plan = false;              ///< only say what the evaluation would take
  std::filesystem::path write{};  ///< write the restored model here and stop; empty: evaluate
  device_choice device{};
};

/// Parses qkgeom capture's command line; options override settings of the protocol that `--protocol` names. Prints
/// --help and returns no value after it. Throws `error` with one sentence on anything else that cannot run.
std::optional<capture_arguments> parse_arguments(int argc, const char* const* argv);

/// Parses qkgeom evaluate's command line in the same way.
std::optional<evaluation_arguments> parse_evaluation(int argc, const char* const* argv);

}  // namespace qkgeom
