// SPDX-License-Identifier: MIT
// qkgeom evaluate: loss and recall of a model with some of its heads changed.
#include <fmt/format.h>

#include <iostream>

#include "capture/arguments.hpp"
#include "capture/evaluate/restore.hpp"
#include "capture/forward/products/blas.hpp"
#include "qkgeom/io/program.hpp"

namespace {

using namespace qkgeom;

forward_pass_factory factory_for([[maybe_unused]] const evaluation_arguments& asked) {
#if defined(QKGEOM_CAPTURE_CUDA)
  const auto& options = asked.options.capture;
  if (asked.device.cuda)
    return cuda_forward_pass({.resident = asked.device.resident,
                              .max_length = options.selection.max_length,
                              .batch_tokens = options.run.batch_tokens});
#endif
  return cpu_forward_pass();
}

void run(int argc, char** argv) {
  const auto asked = parse_evaluation(argc, argv);
  if (!asked) return;
#if !defined(QKGEOM_CAPTURE_CUDA)
  if (asked->device.cuda) become_cuda_program(argv);
#endif
  const evaluation_options& options = asked->options;
  if (asked->plan) return plan_evaluation(options, std::cout, std::cerr, factory_for(*asked));
  require_no_other_process();
  if (!asked->write.empty()) {
    const made_folder out(asked->write);
    write_restored(options, asked->write, std::cerr);
    return fmt::print("written to {}: model.safetensors\n", asked->write.string());
  }
  const made_folder out(options.capture.run.out);
  evaluate_model(options, std::cerr, factory_for(*asked));
  fmt::print("written to {}: condition_loss.csv condition_probes.csv\n", options.capture.run.out.string());
}

}  // namespace

int main(int argc, char** argv) {
  qkgeom::set_blas_environment(argv);
  return qkgeom::run_program("qkgeom evaluate", [&] { run(argc, argv); });
}
