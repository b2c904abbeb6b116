// SPDX-License-Identifier: MIT
// qkgeom-evaluate: loss and recall of a model with some of its heads changed.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>

#include "capture/arguments.hpp"
#include "capture/forward/products/blas.hpp"

int main(int argc, char** argv) {
  qkgeom::choose_blas_kernels(argv);
  try {
    if (const auto options = qkgeom::parse_evaluation(argc, argv)) {
      if (options->plan) {
        qkgeom::plan_evaluation(*options, std::cout, std::cerr);
        return 0;
      }
      std::filesystem::create_directories(options->capture.out);
      qkgeom::evaluate_model(*options, std::cerr);
      fmt::print("written to {}: condition_loss.csv condition_probes.csv\n", options->capture.out.string());
    }
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "qkgeom-evaluate: {}\n", e.what());
    return 2;
  }
}
