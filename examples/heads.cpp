// SPDX-License-Identifier: MIT
// PCA, rotation and plasticity of every head of a capture: one row a head, every table and figure, a printed summary.
#include "examples/common/cli.hpp"
#include "examples/common/details.hpp"
#include "examples/common/outputs.hpp"
#include "examples/common/report_text.hpp"
#include "examples/common/softmax.hpp"
#include "qkgeom/core/error.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  std::vector<std::string> heads;
  qkgeom::analysis_options options;
  CLI::App app{
      "The geometry of every head: heads.csv, layers.csv, all tables and figures of pca, rotation and plasticity",
      "heads"};
  add_arguments(app, a);
  add_plasticity_arguments(app, a);
  add_threshold_arguments(app, options.pca.thresholds);
  app.add_option("--head", heads, "Draw the plane of this head, LAYER.HEAD; may be given several times");
  bool details = false, refit_errors = false;
  app.add_flag(
      "--details", details,
      "The slower tables too: what stands behind the profiles, fit checks, rotation planes, the decay theorem");
  app.add_flag(
      "--refit-errors", refit_errors,
      "Errors over documents of PCA and rotation too, from ten analyses without a tenth of the documents each");
  return run_main(argc, argv, app, a, [&] {
    for (const auto& name : heads) parse_head(name);
    options.components = details;
    options.geometry_blocks = refit_errors ? 10 : 0;
    options = with_arguments(options, a);
    qkgeom::require(!details || options.sampled_pairs == 0, "--details looks at all pairs, leave --pairs out");
    const auto found = analyse_capture(a, options);
    output_folder folder(a.out);
    write_heads(folder, found);
    write_pca(folder, found, options.pca.thresholds);
    write_rotation(folder, found, heads);
    write_plasticity(folder, found);
    if (details) write_details(folder, found, a);
    const auto statistics = statistics_of(found);
    write_statistics(folder, found, statistics);
    printer out;
    print_capture(out, found);
    print_classes(out, found.report, options.pca.thresholds);
    print_position(out, found.report);
    print_plasticity(out, found.report);
    print_statistics(out, statistics);
    print_extremes(out, found.report);
    folder.print(out);
  });
}
