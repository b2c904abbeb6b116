// SPDX-License-Identifier: MIT
// A study as one HTML page that loads nothing: tables, figures, every head, the target, and how the report was made.
#include <optional>

#include "examples/common/cli.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/common/numbers/learned.hpp"
#include "examples/grip/grip_study.hpp"
#include "examples/report/page.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace {

using namespace qkgeom::examples;

struct benchmark {
  std::optional<double> score;
  std::string name;
  std::filesystem::path others;
  std::vector<std::string> columns{"model", "ap_drop", "score"};
};

/// Places the model among others by AP_drop and score: a sentence and a figure.
void place(page_printer& page, printer& out, output_folder& folder, const qkgeom::model_report& report,
           const benchmark& b, const std::vector<scored_model>& others) {
  if (!b.score) return;
  const auto drop = qkgeom::summarize_model(report)[0].drop;
  const auto q = quadrant_of(drop, *b.score, median_score(others));
  const std::string score_name = b.name.empty() ? b.columns[2] : b.name;
  draw(quadrant_figure{.title = "AP_drop and " + score_name,
                       .subtitle = report.model + " among " + counted(others.size(), "model") + " of " +
                                   b.others.filename().string(),
                       .score_name = score_name,
                       .model = report.model,
                       .drop = drop,
                       .score = *b.score,
                       .others = others},
       folder.figure("quadrant"));
  for (printer* p : {static_cast<printer*>(&page), &out}) {
    p->heading("Among other models");
    p->line("  " + q.statement);
  }
  page.add(figure_html(drawn_figure(folder, "quadrant")));
}

/// Computes the numbers that the model learned beyond the untrained models whose captures are named; writes
/// learned.csv.
std::vector<learned_group> learned_beyond(output_folder& folder, const arguments& a,
                                          const qkgeom::analysis_options& options, const analysed& model,
                                          const std::vector<std::filesystem::path>& untrained) {
  if (untrained.empty()) return {};
  std::vector<compared_model> models{compare_by_capture(model, model.report.model, "", {})};
  for (const auto& path : untrained) {
    auto one = a;
    one.captures = {path};
    models.push_back(compare_by_capture(analyse_capture(one, options), path.string(), "", {}));
  }
  auto learned = learned_of(models);
  std::erase_if(learned, [&](const auto& g) { return g.model != models[0].label; });
  folder.write("learned.csv", learned_table(learned));
  return learned;
}

}  // namespace

int main(int argc, char** argv) {
  arguments a;
  benchmark b;
  std::vector<std::filesystem::path> untrained;
  report_settings settings{.command = shell_line(argc, argv), .version = QKGEOM_VERSION};
  qkgeom::analysis_options options;
  command_line app{
      "A study as one page, report.html: summary, figures, a table of heads that sorts and filters, the target "
      "for AP_drop, notes; beside it the tables and figures of heads but key_groups.csv"};
  add_arguments(app, a);
  a.figures = true;  // the page holds them
  add_plasticity_arguments(app, a);
  add_threshold_arguments(app, options.pca.thresholds);
  auto score =
      app.add_option("--score", b.score, "The model's score on a benchmark, drawn against AP_drop among --others");
  auto others = app.add_option("--others", b.others, "CSV file with AP_drop and score of other models");
  score.needs(others);
  others.needs(score);
  app.add_option("--others-columns", b.columns, "Its columns of name, AP_drop and score")
      .list()
      .expected(3)
      .needs(others)
      .shows_default();
  app.add_option("--score-name", b.name, "What the score is called; default: its column").needs(others);
  app.add_option("--bias-scale", settings.scales.bias,
                 "Colours of bias times context, in logits, end at plus and minus this")
      .positive()
      .shows_default();
  app.add_flag(
      "--refit-errors", settings.refit_errors,
      "Errors over documents of PCA and rotation too, from ten analyses without a tenth of the documents each");
  app.add_option("--untrained", untrained,
                 "Captures of untrained models of this architecture (qkgeom capture --untrained SEED): what training "
                 "put into the numbers of all heads, with intervals over seeds and documents")
      .list();
  grip_arguments grip_choice{.context = -1};
  app.add_option(
         "--grip", grip_choice.context,
         "Adds grip and reach among up to so many keys, as qkgeom grip has them; 0: the captured context. Needs "
         "the keys of every token (--sampler all)")
      .not_negative();
  return run_main(argc, argv, app, a, [&] {
    options.geometry_blocks = settings.refit_errors || !untrained.empty() ? 10 : 0;
    options = with_arguments(options, a);
    settings.choice = a;
    require_untrained(untrained, a.captures.at(0));
    settings.thresholds = options.pca.thresholds;
    const auto others_scored = b.score ? read_scored_models(b.others, b.columns) : std::vector<scored_model>{};
    auto whole = analyse_capture(a, options);
    std::optional<grip_study> grip;
    if (grip_choice.context >= 0) grip = find_grip(a, grip_choice, std::move(whole));
    const auto& found = grip ? grip->whole : whole;
    const auto& report = found.report;
    output_folder folder(a.out, a.figures);
    printer out;
    page_printer among;
    print_capture(out, found);
    print_target(out, report, true);
    place(among, out, folder, report, b, others_scored);
    write_notes(folder, found);
    write_heads(folder, found);
    write_pca(folder, found, settings.thresholds);
    write_rotation(folder, found, {}, settings.scales.bias);
    draw(bias_in_sd_map(report, settings.scales.bias_in_sd), folder.figure("bias_in_sd_map"));
    write_plasticity(folder, found);
    const auto statistics = statistics_of(found);
    const auto learned = learned_beyond(folder, a, options, found, untrained);
    write_statistics(folder, found, statistics);
    auto content = report_sections(found, settings, statistics);
    page_printer on_grip;
    if (grip) {
      write_grip(folder, *grip);
      for (printer* p : {static_cast<printer*>(&on_grip), &out}) print_grip(*p, *grip);
    }
    content.result.insert(content.result.end(), on_grip.sections().begin(), on_grip.sections().end());
    content.result.insert(content.result.end(), among.sections().begin(), among.sections().end());
    page_printer beyond;
    for (printer* p : {static_cast<printer*>(&beyond), &out}) print_learned(*p, learned);
    content.summary.insert(content.summary.end(), beyond.sections().begin(), beyond.sections().end());
    std::vector<page_figure> figures;
    for (const auto& name : folder.figures())
      if (name != "quadrant") figures.push_back(drawn_figure(folder, name));  // that one stands with the target
    content.overview = overview_html(report, figures);
    content.figures = figures_html(figures, settings.scales);
    qkgeom::write_text(folder.page("report.html"), report_page(content));
    folder.print(out);
  });
}
