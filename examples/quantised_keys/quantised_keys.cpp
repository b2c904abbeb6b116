// SPDX-License-Identifier: MIT
// Pairs of keys whose order a query flips when a cache rounds them, and which key heads a budget of bits should go to.
#include "examples/common/cli.hpp"
#include "examples/quantised_keys/rounding_study.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  a.covariance = {"joint"};
  rounding_arguments choice;
  std::vector<std::string> names;
  for (const auto& t : qkgeom::cache_types) names.emplace_back(t.name);
  command_line app{
      "What rounding keys to the types of a cache does to their order, and tables of bits per key head: "
      "rounded_keys.csv, rounded_keys_distance.csv, bit_tables.csv, conditions.json for qkgeom evaluate"};
  add_arguments(app, a);
  add_figures_argument(app, a);
  add_query_model_arguments(app, a);
  add_seed_argument(app, a);
  app.add_option("--types", choice.types, "Cache types, as llama.cpp names them").list().one_of(names).shows_default();
  app.add_option("--budgets", choice.budgets, "Mean bits per key value of the tables")
      .list()
      .positive()
      .shows_default();
  app.add_option("--max-queries", choice.max_queries, "Observed queries used per bucket")
      .in_range(2, 100000)
      .shows_default();
  return run_main(argc, argv, app, a, [&] {
    const auto found = find_rounding(a, choice);
    output_folder folder(a.out, a.figures);
    write_rounding(folder, found);
    printer out;
    print_rounding(out, found);
    folder.print(out);
  });
}
