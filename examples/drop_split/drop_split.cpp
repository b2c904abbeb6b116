// SPDX-License-Identifier: MIT
// Why plasticity falls along the context: AP_drop of every head of a capture as a sum of its causes.
#include "examples/common/cli.hpp"
#include "examples/drop_split/split_drop.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  a.covariance = {"joint"};
  drop_arguments choice;
  command_line app{
      "Splits AP_drop of every head into drift, content means, variance and keys: drop_split.csv, figures"};
  add_arguments(app, a);
  add_figures_argument(app, a);
  add_query_model_arguments(app, a);
  app.add_option(
         "--keys", choice.keys,
         "How keys are frozen: distances reweighs pairs to the distances of the first fifth, rotation turns each "
         "key back to the bucket's start where the layer has rotary embeddings")
      .one_of({"distances", "rotation"})
      .shows_default();
  app.add_option("--distance-cell", choice.distance_cell, "Cells of the distances, tokens; 0: a 128th of the context")
      .not_negative()
      .shows_default();
  return run_main(argc, argv, app, a, [&] {
    const auto found = split_capture(a, choice);
    output_folder folder(a.out, a.figures);
    write_drops(folder, found);
    printer out;
    print_notes(out, notes_on_captures(a));
    print_drops(out, found);
    folder.print(out);
  });
}
