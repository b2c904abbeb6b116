// SPDX-License-Identifier: MIT
// Several models side by side, from one capture of each: geometry of the bias, plasticity profiles, differences.
#include <algorithm>

#include "examples/common/cli.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/common/labels.hpp"
#include "examples/common/numbers/learned.hpp"
#include "examples/compare/heads.hpp"
#include "examples/compare/models.hpp"
#include "qkgeom/core/error.hpp"

namespace {

/// Default bins in tokens, doubling from a sixteenth of the shortest context to the longest context.
std::vector<double> common_bins(const std::vector<qkgeom::index_t>& context_lengths) {
  const auto [shortest, longest] = std::minmax_element(context_lengths.begin(), context_lengths.end());
  std::vector<double> edges{0};
  const double end = static_cast<double>(*longest);
  for (double edge = std::max(1.0, static_cast<double>(*shortest) / 16); edges.back() < end; edge *= 2)
    edges.push_back(std::min(edge, end));
  return edges;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace qkgeom::examples;
  arguments a;
  std::vector<std::string> names, families, pairs;
  std::vector<double> bins;
  std::filesystem::path scores;
  model_choices choices;
  bool by_head = false;
  qkgeom::index_t context = 0;
  qkgeom::analysis_options options{.geometry_blocks = 20};
  command_line app{"Several models side by side: models.csv, positions.csv, differences.csv and more, with figures"};
  add_arguments(app, a);
  add_figures_argument(app, a);
  app.get_option("CAPTURE").description(
      "Captures, one of each model; those of untrained models (qkgeom capture --untrained) are the baseline of their "
      "architecture");
  add_plasticity_arguments(app, a);
  add_threshold_arguments(app, options.pca.thresholds);
  app.add_option("--labels", names, "Names of the models, as many as captures; default: the captures' file names")
      .list();
  app.add_option("--families", families,
                 "Families of the models, as many as captures; default: what the captures' manifests say")
      .list();
  app.add_option("--pair", pairs,
                 "Two models by their labels, A,B: differences.csv has A less B; may be given several times; default: "
                 "each minus the first");
  app.add_option("--bins", bins,
                 "Ascending edges in tokens of bins of the context, for all models alike; default: doubling from a "
                 "sixteenth of the shortest context")
      .list();
  app.add_option("--scores", scores,
                 "CSV file with the column model and a column for each benchmark: what of the models goes with it");
  app.add_flag("--heads", by_head,
               "Which heads differ: head_differences.csv, changed_heads.json; with grip and reach where the captures "
               "hold the keys of every token");
  app.add_option("--context", context,
                 "Compares the heads in a longer context too, predicted from the captures, tokens")
      .positive()
      .needs(app.get_option("--heads"));
  add_blocks_argument(app, options.geometry_blocks);
  return run_main(argc, argv, app, a, [&] {
    const auto labels = capture_labels(a.captures, names, "model");
    qkgeom::require(families.empty() || families.size() == labels.size(), "--families names ", families.size(),
                    " families, but there are ", labels.size(), " captures");
    qkgeom::require(std::is_sorted(bins.begin(), bins.end()) && (bins.empty() || bins.size() > 1),
                    "--bins must be ascending edges, two or more");
    choices.pairs = model_pairs(pairs, labels);
    if (!scores.empty()) choices.scores = read_scores(scores, labels);
    if (bins.empty()) bins = common_bins(context_lengths(a.captures));
    options = with_arguments(options, a);
    choices.thresholds = options.pca.thresholds;
    choices.query_model = name_of(options.covariances.at(0));
    choices.seed = a.seed;
    output_folder folder(a.out, a.figures);
    std::vector<compared_model> models;
    std::vector<compared_heads> heads;
    for (std::size_t i = 0; i < a.captures.size(); ++i) {
      auto one = a;
      one.captures = {a.captures[i]};
      const auto found = analyse_capture(one, options);
      if (by_head) heads.push_back(heads_of(one, options, found, labels[i], context));
      models.push_back(compare_by_capture(found, labels[i], families.empty() ? family_of(found) : families[i], bins));
      draw(profile_figure(found.report), folder.figure("profile_of_" + file_name_of(labels[i])));
      draw(mean_heatmap(found.report), folder.figure("heatmap_of_" + file_name_of(labels[i])));
    }
    std::vector<head_comparison> changes;
    for (const auto& [i, j] : choices.pairs)
      if (by_head)
        changes.push_back(compare_heads(a, options, heads[i], heads[j], same_documents(models[i], models[j])));
    write_models(folder, models, choices);
    if (by_head) write_head_changes(folder, changes);
    printer out;
    print_models(out, models, choices);
    print_head_changes(out, changes);
    folder.print(out);
  });
}
