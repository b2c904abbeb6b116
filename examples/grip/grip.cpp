// SPDX-License-Identifier: MIT
// Whether each head keeps what it has found when the context grows, and how far it sees, from a short capture.
#include "examples/common/cli.hpp"
#include "examples/grip/grip_study.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  grip_arguments choice;
  command_line app{
      "Predicts from a short capture which heads keep the key that they have found on top at any context (grip), how "
      "far "
      "back a repeated token's key is found (reach), and how stable the order of keys is: grip.csv, grip_heads.csv, "
      "reach.csv, stability.csv, grip_check.csv"};
  add_arguments(app, a);
  add_figures_argument(app, a);
  add_head_arguments(app, a);
  add_seed_argument(app, a);
  app.add_option("--context", choice.context,
                 "Number of keys that compete, up to; 0: as captured, or what a capture made with --short stands for")
      .not_negative()
      .shows_default();
  add_embedding_arguments(app, choice.embedding);
  app.add_option("--near", choice.near,
                 "Nearest keys among which a key is found, tokens; 0: 512, at most half of the captured context")
      .not_negative()
      .shows_default();
  app.add_option("--queries", choice.queries, "Queries of each kind of needle drawn in a document")
      .positive()
      .shows_default();
  app.add_flag("--first-compete", choice.first_compete,
               "The first four tokens compete too; heads that park attention there lose every needle to them");
  app.add_option("--actual", choice.actual,
                 "Captures of long documents, to count the same there and hold the prediction against");
  return run_main(argc, argv, app, a, [&] {
    const auto found = find_grip(a, choice);
    output_folder folder(a.out, a.figures);
    write_notes(folder, found.whole);
    write_grip(folder, found);
    printer out;
    print_capture(out, found.whole);
    print_grip(out, found);
    folder.print(out);
  });
}
