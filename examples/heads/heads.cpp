// SPDX-License-Identifier: MIT
// PCA, rotation and plasticity of every head of a capture: one row per head, all tables and figures, a printed summary.
#include <cmath>

#include "examples/common/cli.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/common/outputs.hpp"
#include "examples/common/softmax.hpp"
#include "examples/common/terminal.hpp"
#include "examples/heads/tables.hpp"
#include "qkgeom/core/error.hpp"

namespace {

using namespace qkgeom::examples;

/// One line: correlations between the profiles of heads that share a key head, and of heads that do not.
void print_shared_keys(printer& out, const shared_key_likeness& all) {
  const auto text = [](const qkgeom::head_estimate& e) {
    return fixed(e.value, 3) + (std::isfinite(e.error) ? " ± " + fixed(e.error, 3) : "");
  };
  if (all.pairs_within == 0 || all.pairs_between == 0)
    out.line(
        "  Key heads: no layer has both two heads that share a key head and two that do not, with three query buckets "
        "in common");
  else
    out.line("  Profiles of two heads of a layer correlate at " + text(all.correlation_within) +
             " where they share a key head (" + counted(all.pairs_within, "pair") + "), at " +
             text(all.correlation_between) + " where they do not (" + counted(all.pairs_between, "pair") +
             "): difference " + text(all.correlation_difference));
}

struct choices {
  arguments a;
  qkgeom::analysis_options options;
  std::vector<std::string> heads;
  bool details = false;
};

/// Writes every table and figure; prints a summary if `out` is not null.
void write_all(const choices& c, const analysed& found, const std::filesystem::path& path, printer* out) {
  output_folder folder(path, c.a.figures);
  write_analysis(folder, found, c.options.pca.thresholds, c.heads);
  const auto details = c.details ? write_details(folder, found, c.a) : std::vector<std::string>{};
  const auto likeness = shared_keys_of(found.report);
  folder.write("key_groups.csv", shared_keys_table(likeness));
  const auto statistics = statistics_of(found);
  write_statistics(folder, found, statistics);
  if (!out) return;
  print_capture(*out, found);
  print_classes(*out, found.report, c.options.pca.thresholds);
  print_position(*out, found.report);
  print_plasticity(*out, found.report);
  print_shared_keys(*out, likeness.at(0));
  print_statistics(*out, statistics);
  print_extremes(*out, found.report);
  if (!details.empty()) out->heading("Details: all heads together");
  for (const auto& sentence : details) out->line("  " + sentence);
  folder.print(*out);
}

/// Analyses the documents of each label value, writes a folder for each, and groups.csv.
void write_by_label(const choices& c, const std::string& label, printer& out) {
  auto values = documents_by_label(c.a.captures, label);
  const bool two = values.size() == 2;
  std::vector<std::string> left_out;
  for (const auto& v : values)
    if (!v.missing.empty()) left_out.push_back((v.value.empty() ? "(none)" : v.value) + ": " + v.missing);
  std::erase_if(values, [](const auto& v) { return !v.missing.empty(); });
  const auto analyse_of = [&](const std::vector<qkgeom::index_t>& documents) {
    auto a = c.a;
    a.documents = documents;
    return analyse_capture(a, c.options);
  };
  const auto summary = [&](const analysed& found, const std::string& name) {
    return compare_by(found.report, name, "", {}, {});
  };
  std::vector<document_group> groups;
  for (const auto& v : values) {
    const auto found = analyse_of(v.inside);
    groups.push_back({label, v.value, {}, {}});
    const auto path = c.a.out / v.folder;
    std::filesystem::create_directories(path);
    write_all(c, found, path, nullptr);
    groups.back().inside = summary(found, v.value);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].others_incomplete) continue;
    if (two) {  // the others are the documents of the other value
      groups[i].outside = groups[1 - i].inside.groups;
      continue;
    }
    const auto others = analyse_of(values[i].others);
    groups[i].outside = summary(others, "rest").groups;
  }
  output_folder folder(c.a.out, c.a.figures);
  folder.write("groups.csv", groups_table(groups));
  print_groups(out, groups);
  for (const auto& why : left_out) out.line("  left out: " + why);
  folder.print(out);
  out.line("  and all of the above in a folder for each value, e.g. " + values[0].folder.string());
}

}  // namespace

int main(int argc, char** argv) {
  choices c;
  auto& a = c.a;
  auto& options = c.options;
  std::string label;
  std::vector<qkgeom::index_t> lengths;
  command_line app{
      "The geometry of every head: heads.csv, layers.csv, all tables and figures of pca, rotation and plasticity"};
  add_arguments(app, a);
  add_figures_argument(app, a);
  add_device_argument(app, a);
  add_plasticity_arguments(app, a);
  add_threshold_arguments(app, options.pca.thresholds);
  add_head_arguments(app, a);
  app.add_option("--head", c.heads, "Draw the plane of this head, LAYER.HEAD; may be given several times");
  bool refit_errors = false;
  app.add_flag(
      "--details", c.details,
      "The slower tables too: what stands behind the profiles, fit checks, rotation planes, the decay theorem; all but "
      "the first on the CPU, whatever --device");
  app.add_flag(
      "--refit-errors", refit_errors,
      "Errors over documents of PCA and rotation too, from ten analyses without a tenth of the documents each");
  app.add_option("--group-by", label,
                 "Label of the documents, e.g. task: everything once more for the documents of each of its values, in "
                 "OUT/LABEL=VALUE, and groups.csv; with --refit-errors");
  app.add_option("--max-position", lengths,
                 "Lengths in tokens, e.g. 1024,2048: head classes, bias and plasticity as if the context ended there, "
                 "in contexts.csv and a figure")
      .list();
  return run_main(argc, argv, app, a, [&] {
    require_heads(a, c.heads);
    options.components = c.details;
    options.geometry_blocks = refit_errors || !label.empty() ? 10 : 0;
    options = with_arguments(options, a);
    qkgeom::require(!c.details || a.pairs == "all", "--details looks at all pairs, leave --pairs out");
    if (!label.empty()) documents_by_label(a.captures, label);  // refuses a wrong label before the analysis
    printer out;
    const auto found = analyse_capture(a, options);
    write_all(c, found, a.out, &out);
    if (!lengths.empty()) {
      const auto contexts = analyse_contexts(a, options, lengths);
      output_folder folder(a.out, a.figures);
      write_contexts(folder, contexts);
      print_contexts(out, contexts);
      folder.print(out);
    }
    if (!label.empty()) write_by_label(c, label, out);
  });
}
