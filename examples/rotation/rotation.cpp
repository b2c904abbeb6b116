// SPDX-License-Identifier: MIT
// The plane {a, b} of every head of a capture: drift, separation, and the score that position alone adds to later keys.
#include "examples/common/cli.hpp"
#include "examples/common/outputs.hpp"
#include "examples/common/terminal.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  std::vector<std::string> heads;
  std::string separation = "centroid";
  command_line app{"Planar rotation: rotated.csv, bias strength as histogram and map, the plane of chosen heads"};
  add_arguments(app, a);
  add_figures_argument(app, a);
  add_device_argument(app, a);
  app.add_option("--head", heads, "Draw the plane of this head, LAYER.HEAD; may be given several times");
  app.add_option("--separation", separation, "How axis b is found")
      .one_of({"centroid", "top_eigenvector"})
      .shows_default();
  return run_main(argc, argv, app, a, [&] {
    require_heads(a, heads);
    qkgeom::analysis_options options{.plasticity = false};
    if (separation == "top_eigenvector") options.rotation.separation = qkgeom::separation_axis_kind::top_eigenvector;
    const auto found = analyse_capture(a, options);
    output_folder folder(a.out, a.figures);
    write_notes(folder, found);
    write_rotation(folder, found, heads);
    printer out;
    print_capture(out, found);
    print_position(out, found.report);
    print_extremes(out, found.report);
    folder.print(out);
  });
}
