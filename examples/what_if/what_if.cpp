// SPDX-License-Identifier: MIT
// The geometry of every head at a longer context or under another rotary embedding, from a short capture.
#include "qkgeom/io/what_if.hpp"
#include "examples/common/cli.hpp"
#include "examples/what_if/predictions.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  a.covariance = {"joint"};
  what_if_arguments choice;
  choice.keep_first = qkgeom::kept_first_tokens;
  qkgeom::analysis_options options;
  command_line app{
      "Predicts every head's geometry at a longer context or under another rotary embedding: what_if.csv with "
      "intervals, self_check.csv, stationarity.csv, and all tables and figures of heads, captured and predicted"};
  add_arguments(app, a);
  add_figures_argument(app, a);
  add_device_argument(app, a);
  add_plasticity_arguments(app, a);
  add_head_arguments(app, a);
  add_threshold_arguments(app, options.pca.thresholds);
  app.add_option("--context", choice.context,
                 "Length of the context, tokens; 0: as captured, or what a capture made with --short stands for")
      .not_negative()
      .shows_default();
  add_embedding_arguments(app, choice.embedding);
  app.add_option("--keep-first", choice.keep_first,
                 "Tokens at a document's start that keep their positions, and that stationarity leaves out")
      .not_negative()
      .shows_default();
  app.add_option("--actual", choice.actual,
                 "Captures of that context itself, to hold the prediction against: actual.csv");
  return run_main(argc, argv, app, a, [&] {
    options = with_arguments(options, a);
    const auto found = predict(a, options, choice);
    output_folder folder(a.out, a.figures);
    write_prediction(folder, found, options);
    printer out;
    print_prediction(out, found);
    folder.print(out);
    out.line("  and all of heads in " + (a.out / "captured").string() + " and " + (a.out / "predicted").string());
  });
}
