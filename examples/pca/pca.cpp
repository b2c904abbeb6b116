// SPDX-License-Identifier: MIT
// PCA of every head of a capture: correlation of its components with position, and the head's class.
#include "examples/common/cli.hpp"
#include "examples/common/outputs.hpp"
#include "examples/common/terminal.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  qkgeom::analysis_options options{.plasticity = false};
  command_line app{"PCA of queries and keys: qk.csv, the r_q-r_k scatter and map, shares of head classes"};
  add_arguments(app, a);
  add_figures_argument(app, a);
  add_device_argument(app, a);
  add_threshold_arguments(app, options.pca.thresholds);
  return run_main(argc, argv, app, a, [&] {
    const auto found = analyse_capture(a, options);
    output_folder folder(a.out, a.figures);
    write_notes(folder, found);
    write_pca(folder, found, options.pca.thresholds);
    printer out;
    print_capture(out, found);
    print_classes(out, found.report, options.pca.thresholds);
    print_position(out, found.report);
    folder.print(out);
  });
}
