// SPDX-License-Identifier: MIT
// qkgeom-evaluate: loss and recall of a model with some of its heads changed.
#include <fmt/format.h>

#include <iostream>

#include "capture/arguments.hpp"
#include "capture/forward/products/blas.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/processes/one_process.hpp"

int main(int argc, char** argv) {
  qkgeom::set_blas_environment(argv);
  return qkgeom::run_program("qkgeom-evaluate", [&] {
    const auto options = qkgeom::parse_evaluation(argc, argv);
    if (!options) return;
    if (options->plan) return qkgeom::plan_evaluation(*options, std::cout, std::cerr);
    qkgeom::require_one_process();
    const qkgeom::made_folder out(options->capture.out);
    qkgeom::evaluate_model(*options, std::cerr);
    fmt::print("written to {}: condition_loss.csv condition_probes.csv\n", options->capture.out.string());
  });
}
