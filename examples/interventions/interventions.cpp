// SPDX-License-Identifier: MIT
// Effects of ablating or clamping chosen heads on loss and probes, beside the effects of random heads.
#include "examples/common/cli.hpp"
#include "examples/interventions/effects.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  std::filesystem::path evaluation;
  command_line app{"Effects of changed heads from what qkgeom evaluate wrote: effects.csv and figures"};
  app.add_option("EVALUATION", evaluation, "Folder with condition_loss.csv and condition_probes.csv").required();
  app.add_option("--out", a.out, "Folder for table and figures; made if it is not there").required().type_name("DIR");
  add_figures_argument(app, a);
  return run_main(argc, argv, app, a, [&] {
    const auto effects = read_effects(evaluation);
    output_folder folder(a.out, a.figures);
    write_effects(folder, effects);
    printer out;
    print_effects(out, effects);
    folder.print(out);
  });
}
