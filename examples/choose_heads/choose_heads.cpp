// SPDX-License-Identifier: MIT
// Heads worth changing in the forward pass: those at the ends of plasticity, its drop and the bias, and random ones.
#include "examples/choose_heads/head_choice.hpp"
#include "examples/common/cli.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  a.covariance = {"joint"};
  choice_arguments own;
  CLI::App app{"Chooses heads for qkgeom-evaluate: conditions.json, chosen_heads.csv", "choose_heads"};
  add_arguments(app, a);
  add_query_model_arguments(app, a);
  add_seed_argument(app, a);
  app.add_option("--count", own.count, "Heads in a set")->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--random", own.random, "Random sets beside each chosen one, with as many heads in each layer")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  return run_main(argc, argv, app, a, [&] {
    const auto heads = read_candidates(a, own);
    const auto sets = choose_heads(heads, own, a.seed);
    output_folder folder(a.out);
    write_choice(folder, heads, sets);
    printer out;
    print_choice(out, heads, sets);
    folder.print(out);
  });
}
