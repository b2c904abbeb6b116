// SPDX-License-Identifier: MIT
// Several models side by side, from one capture of each: geometry of the bias, plasticity profiles, differences.
#include <algorithm>

#include "examples/common/cli.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/common/labels.hpp"
#include "examples/common/numbers/learned.hpp"
#include "examples/compare/heads.hpp"
#include "examples/compare/models.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/io/csv.hpp"

namespace qkgeom::examples {
namespace {

/// Default bins in tokens, doubling from a sixteenth of the shortest context to the longest context.
std::vector<double> common_bins(const std::vector<std::filesystem::path>& captures) {
  std::vector<index_t> lengths;
  for (const auto& path : captures) lengths.push_back(capture::open(path).manifest().context_length);
  const auto [shortest, longest] = std::minmax_element(lengths.begin(), lengths.end());
  std::vector<double> edges{0};
  const double end = static_cast<double>(*longest);
  for (double edge = std::max(1.0, static_cast<double>(*shortest) / 16); edges.back() < end; edge *= 2)
    edges.push_back(std::min(edge, end));
  return edges;
}

/// The manifest's family, or its model_type if it names no family.
std::string family_of(const analysed& a) {
  const auto& manifest = a.source->manifest();
  return manifest.family.value_or(manifest.model.model_type);
}

/// Reads scores from a CSV file with the column `model` and one column per score. Throws `error` if a model occurs
/// twice or none of `labels` occurs.
std::vector<model_score> read_scores(const std::filesystem::path& path, const std::vector<std::string>& labels) {
  const auto file = read_csv(path);
  const auto& names = file.column("model");
  std::vector<std::ptrdiff_t> row;
  bool known = false;
  for (const auto& label : labels) {
    const auto n = std::count(names.begin(), names.end(), label);
    require(n <= 1, path.string(), ": model ", printable(label), " is there twice");
    row.push_back(n == 0 ? -1 : std::find(names.begin(), names.end(), label) - names.begin());
    known |= n > 0;
  }
  require(known, path.string(), ": none of the models is there, the first is ", labels.at(0));
  std::vector<model_score> scores;
  for (const auto& column : file.columns()) {
    if (column == "model") continue;
    const auto values = file.numbers(column);
    scores.push_back({column, {}});
    for (const auto r : row) scores.back().value.push_back(r < 0 ? NAN : values[r]);
  }
  require(!scores.empty(), path.string(), ": there is no column but model, a score needs one");
  return scores;
}

/// Parses pairs "A,B" of labels; if `texts` is empty, pairs each model with the first.
std::vector<std::pair<std::size_t, std::size_t>> model_pairs(const std::vector<std::string>& texts,
                                                             const std::vector<std::string>& labels) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  const auto place = [&](const std::string& name) -> std::size_t {
    return std::find(labels.begin(), labels.end(), name) - labels.begin();
  };
  for (const auto& text : texts) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::size_t a = place(text.substr(0, comma)), b = place(text.substr(std::min(comma + 1, text.size())));
    require(a < labels.size() && b < labels.size() && a != b, "--pair must name two models by their labels, e.g. ",
            labels.at(0), ",", labels.size() > 1 ? labels[1] : "another", ", not ", text);
    pairs.emplace_back(a, b);
  }
  for (std::size_t i = 1; texts.empty() && i < labels.size(); ++i) pairs.emplace_back(i, 0);
  return pairs;
}

}  // namespace
}  // namespace qkgeom::examples

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
    if (bins.empty()) bins = common_bins(a.captures);
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
