// SPDX-License-Identifier: MIT
// Attention plasticity of every head of a capture: how often two queries would order a pair of keys differently.
#include "examples/common/outputs.hpp"
#include "examples/common/terminal.hpp"
#include "examples/plasticity/author_analysis.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  preset_arguments preset;
  qkgeom::analysis_options options{.geometry = false};
  command_line app{"Attention plasticity: profile.csv, heatmap.csv, bins.csv and their figures"};
  add_arguments(app, a);
  add_figures_argument(app, a);
  add_device_argument(app, a);
  add_plasticity_arguments(app, a);
  app.add_flag("--across-examples", options.across_documents, "Pairs of keys of different documents too");
  add_preset_arguments(app, preset);
  app.get_option("--preset").clears(a.figures).excludes(app.get_option("--device"));  // draws nothing, on the CPU alone
  return run_main(argc, argv, app, a, [&] {
    if (!preset.name.empty()) return run_preset(a, preset);
    options = with_arguments(options, a);
    const auto found = analyse_capture(a, options);
    output_folder folder(a.out, a.figures);
    write_notes(folder, found);
    write_plasticity(folder, found);
    printer out;
    print_capture(out, found);
    print_plasticity(out, found.report);
    print_extremes(out, found.report);
    folder.print(out);
  });
}
