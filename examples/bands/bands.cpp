// SPDX-License-Identifier: MIT
// Measures the effect of each plane of the rotary embedding on a head's scores, and the part of AP_drop that bands of
// planes make.
#include "examples/bands/rotary_bands.hpp"
#include "examples/common/cli.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  a.covariance = {"joint"};
  band_arguments choice;
  command_line app{
      "Scores and the fall of plasticity by plane of the rotary embedding: planes.csv, score_by_distance.csv, "
      "band_drops.csv and their figures"};
  add_arguments(app, a);
  add_figures_argument(app, a);
  add_device_argument(app, a);
  add_head_arguments(app, a);
  add_query_model_arguments(app, a);
  app.add_option("--context", choice.context,
                 "Length of the context, tokens; 0: as captured, or what a capture made with --short stands for")
      .not_negative()
      .shows_default();
  app.add_option("--keep-first", choice.keep_first, "Tokens at a document's start that keep their positions")
      .not_negative()
      .shows_default();
  app.add_option("--score-pairs", choice.scores.pairs, "Pairs of a query and an earlier key drawn in each document")
      .positive()
      .shows_default();
  app.add_flag("--each-plane", choice.each_plane,
               "Also the profiles with each plane held still: plane_profiles.csv; an analysis for each");
  app.add_flag(
      "--conditions", choice.conditions,
      "Also conditions.json for qkgeom evaluate, in which bands of planes, the slowest planes and random planes "
      "do not rotate (with --each-plane every plane), and plane_sets.csv, the changes of AP_drop, grip and "
      "reach that are predicted; needs the keys of every token");
  app.add_option("--random", choice.random, "Sets of random planes beside each set of --conditions")
      .not_negative()
      .shows_default();
  return run_main(argc, argv, app, a, [&] {
    const auto found = find_bands(a, choice);
    const auto sets = choice.conditions ? find_plane_sets(a, choice, found) : std::vector<plane_set>{};
    output_folder folder(a.out, a.figures);
    write_bands(folder, found);
    if (choice.conditions) write_plane_sets(folder, found, sets);
    printer out;
    print_bands(out, found);
    folder.print(out);
  });
}
