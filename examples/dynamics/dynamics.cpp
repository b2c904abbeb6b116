// SPDX-License-Identifier: MIT
// How the geometry of a model's heads changes along training: captures of its checkpoints in training order.
#include <optional>

#include "examples/common/cli.hpp"
#include "examples/common/labels.hpp"
#include "examples/dynamics/trajectory.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/report/notes.hpp"

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  a.covariance = {"diagonal", "empirical"};
  std::vector<std::string> names;
  std::filesystem::path loss;
  qkgeom::analysis_options options{.heatmap = false, .geometry_blocks = 20};
  command_line app{
      "Training dynamics: trajectory.csv, transitions.csv, bias_split.csv, embedding_split.csv and their figures from "
      "captures of checkpoints"};
  add_arguments(app, a);
  add_figures_argument(app, a);
  app.get_option("CAPTURE")
      .description(
          "Captures of one model's checkpoints in training order, at least two; the same heads in each, best "
          "of the same documents")
      .expected(-2);  // at least two
  add_plasticity_arguments(app, a);
  add_threshold_arguments(app, options.pca.thresholds);
  app.add_option("--labels", names, "Names of the checkpoints, as many as captures; default: the captures' file names")
      .list();
  app.add_option("--loss", loss, "CSV file with the columns checkpoint,heldout_loss; those it lacks stay empty");
  add_blocks_argument(app, options.geometry_blocks);
  return run_main(argc, argv, app, a, [&] {
    const auto labels = capture_labels(a.captures, names, "checkpoint");
    const auto losses = loss.empty() ? std::map<std::string, double>{} : read_losses(loss, labels);
    options = with_arguments(options, a);
    std::vector<trajectory_point> points;
    std::vector<std::shared_ptr<const qkgeom::capture_set>> sources;
    std::vector<std::pair<std::string, std::vector<qkgeom::report_note>>> notes;
    printer out;
    for (std::size_t i = 0; i < a.captures.size(); ++i) {
      auto one = a;
      one.captures = {a.captures[i]};
      const auto found = analyse_capture(one, options);
      notes.emplace_back(labels[i], found.report.notes);
      print_notes(out, found.report.notes, labels[i]);
      const auto known = losses.find(labels[i]);
      points.push_back(
          point_of(found.report, labels[i], known == losses.end() ? std::nullopt : std::optional(known->second)));
      check_comparable(points.front(), points.back());
      sources.push_back(found.source);
    }
    const auto steps = swap_embeddings(a, options, points, sources);
    output_folder folder(a.out, a.figures);
    const std::string model(name_of(options.covariances[0]));
    folder.write("notes.csv", qkgeom::notes_table(notes));
    write_dynamics(folder, points, model);
    write_embedding_steps(folder, steps);
    print_dynamics(out, points, model);
    print_embedding_steps(out, steps);
    folder.print(out);
  });
}
