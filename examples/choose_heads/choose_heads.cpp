// SPDX-License-Identifier: MIT
// Chooses heads to change in the forward pass: those at the ends of plasticity, AP_drop and bias, and random heads.
#include "examples/choose_heads/head_choice.hpp"
#include "examples/common/cli.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  a.covariance = {"joint"};
  choice_arguments choice;
  command_line app{"Chooses heads for qkgeom evaluate: conditions.json, chosen_heads.csv"};
  add_arguments(app, a);
  add_query_model_arguments(app, a);
  add_seed_argument(app, a);
  app.add_option("--rankings", choice.rankings, "By what heads are chosen")
      .list()
      .one_of({ranking_names.begin(), ranking_names.end()})
      .shows_default();
  app.add_option("--count", choice.count, "Heads in a set").in_range(1, 100000).shows_default();
  app.add_option("--random", choice.random, "Random sets beside each chosen one, with as many heads in each layer")
      .in_range(0, 1000)
      .shows_default();
  return run_main(argc, argv, app, a, [&] {
    const auto heads = read_candidates(a, choice);
    const auto sets = choose_heads(heads, choice, a.seed);
    output_folder folder(a.out, a.figures);
    write_choice(folder, heads, sets);
    printer out;
    print_notes(out, notes_on_captures(a));
    print_choice(out, heads, sets);
    folder.print(out);
  });
}
