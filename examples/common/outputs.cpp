// SPDX-License-Identifier: MIT
#include "examples/common/outputs.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "examples/common/figures/head_figures.hpp"
#include "examples/common/labels.hpp"
#include "examples/common/numbers/head_values.hpp"
#include "examples/common/numbers/heterogeneity.hpp"
#include "examples/common/numbers/recovery.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/io/whole_number.hpp"
#include "qkgeom/report/head_tables.hpp"
#include "qkgeom/report/notes.hpp"

namespace qkgeom::examples {

void output_folder::write(const std::string& name, const qkgeom::table& t) {
  tables_.push_back(name);
  write_csv(path_, name, t);
}

std::filesystem::path output_folder::table(const std::string& name) {
  tables_.push_back(name);
  return path_ / name;
}

std::filesystem::path output_folder::page(const std::string& name) {
  pages_.push_back(name);
  return path_ / name;
}

std::filesystem::path output_folder::figure(const std::string& name) {
  if (!draws_) return {};
  figures_.push_back(name);
  return path_ / name;
}

void output_folder::print(printer& out) const {
  constexpr std::size_t width = 100;
  const auto list = [&](const char* what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    std::string line = what;
    for (const auto& name : names) {
      if (line.size() + name.size() > width) {
        out.line(line);
        line = "           ";
      }
      line += " " + name;
    }
    out.line(line);
  };
  out.heading("Written to " + path_.string());
  list("  tables:  ", tables_);
  if (std::filesystem::exists(path_ / "columns.csv")) out.line("            columns.csv says what their columns hold");
  list("  figures: ", figures_);
  if (!figures_.empty()) out.line("            each as .svg and .png");
  list("  pages:   ", pages_);
}

head_id parse_head(const std::string& text, const std::string& option) {
  const std::size_t dot = std::min(text.find('.'), text.size());
  const auto layer = whole_number<index_t>(text.substr(0, dot));
  const auto head = whole_number<index_t>(text.substr(std::min(dot + 1, text.size())));
  require(layer && head && *layer >= 0 && *head >= 0, option, " must be LAYER.HEAD, e.g. 3.2, not ", text);
  return {*layer, *head};
}

void write_notes(output_folder& out, const analysed& a) {
  out.write("notes.csv", notes_table({{a.report.model, a.report.notes}}));
}

void write_pca(output_folder& out, const analysed& a, const class_thresholds& thresholds) {
  out.write("qk.csv", qk_table(a.report));
  draw(class_scatter(a.report, thresholds), out.figure("qk_scatter"));
  draw(correlation_map(a.report), out.figure("qk_map"));
}

std::vector<const head_report*> heads_to_draw(const model_report& report, const std::vector<std::string>& names) {
  std::vector<const head_report*> heads;
  for (const auto& name : names) {
    const auto wanted = parse_head(name);
    const auto it = std::find_if(report.heads.begin(), report.heads.end(), [&](const head_report& h) {
      return h.layer == wanted.layer && h.q_head == wanted.head;
    });
    require(it != report.heads.end(), "--head ", name, ": this head is not in the capture");
    heads.push_back(&*it);
  }
  if (!names.empty() || report.heads.empty()) return heads;
  const auto weaker = [](const head_report& x, const head_report& y) {
    return std::abs(x.rotation.bias.strength) < std::abs(y.rotation.bias.strength);
  };
  const auto [weakest, strongest] = std::minmax_element(report.heads.begin(), report.heads.end(), weaker);
  heads.push_back(&*strongest);
  if (weakest != strongest) heads.push_back(&*weakest);
  return heads;
}

void write_rotation(output_folder& out, const analysed& a, const std::vector<std::string>& heads, double bias_limit) {
  const auto drawn = heads_to_draw(a.report, heads);
  out.write("rotated.csv", rotated_table(a.report));
  draw(bias_histogram(a.report), out.figure("bias_histogram"));
  draw(bias_map(a.report, bias_limit), out.figure("bias_map"));
  if (!out.draws()) return;  // and reads no rows for them
  for (const auto* h : drawn)
    draw(head_plane(a.report, *h, a.rows(h->layer)),
         out.figure("plane_layer" + std::to_string(h->layer) + "_head" + std::to_string(h->q_head)));
}

void write_plasticity(output_folder& out, const analysed& a) {
  out.write("profile.csv", profile_table(a.report));
  out.write("heatmap.csv", heatmap_table(a.report));
  out.write("bins.csv", bins_table(a.report));
  draw(profile_figure(a.report), out.figure("profile"));
  draw(mean_heatmap(a.report), out.figure("heatmap"));
  draw(plasticity_map(a.report), out.figure("plasticity_map"));
}

void write_heads(output_folder& out, const analysed& a) {
  out.write("heads.csv", heads_table(a.report));
  out.write("layers.csv", layers_table(a.report));
  out.write("model_report.csv", model_report_table(a.report));
  out.write("model_columns.csv", model_columns_table(column_summaries(a.report)));
  out.write("model_heatmap.csv", model_heatmap_table(model_heatmaps(a.report)));
  out.write("heterogeneity.csv", heterogeneity_table(heterogeneity(a.report)));
  out.write("recovery.csv", recovery_table(a.report, recovery(a.report)));
}

void write_analysis(output_folder& out, const analysed& a, const class_thresholds& thresholds,
                    const std::vector<std::string>& heads) {
  write_notes(out, a);
  write_heads(out, a);
  write_pca(out, a, thresholds);
  write_rotation(out, a, heads);
  write_plasticity(out, a);
}

bool has_rows(const capture_set& source) {
  index_t rows = 0;
  bool known = true;
  for (const auto& c : source.captures()) {
    known = known && !c.manifest().shards.empty();
    for (const auto& shard : c.manifest().shards) rows += shard.rows;
  }
  return rows > 0 || !known;
}

void require_attention(const capture_set& source, const std::string& why) {
  for (const auto& c : source.captures())
    require(c.manifest().extra.value("heads_of", "attention") == "attention", c.path().string(),
            " holds the heads of indexers: ", why);
}

captured_layer analysed::rows(index_t layer) const { return source->read_layer(layer); }

void print_notes(printer& out, const std::vector<report_note>& notes, const std::string& about) {
  for (const auto& n : notes) out.line("  note: " + (about.empty() ? "" : about + ": ") + n.text);
}

void print_capture(printer& out, const analysed& a) {
  const auto& manifest = a.source->manifest();
  const auto& report = a.report;
  std::set<index_t> layers;
  for (const auto& h : report.heads) layers.insert(h.layer);
  std::string line = printable(manifest.model.name, 200) + " (" + printable(manifest.model.model_type) +
                     "): " + counted(report.heads.size(), "query head") + " in " + counted(layers.size(), "layer") +
                     ", head size " + std::to_string(manifest.model.head_dim);
  out.heading(line);
  line = "  context of " + grouped(manifest.context_length) + " tokens";
  const std::size_t documents = a.source->listed_documents().size();
  if (documents > 0) line += ", " + counted(documents, "document");
  if (!report.heads.empty())
    line += ", " + grouped(report.heads[0].queries) + " queries and " + grouped(report.heads[0].keys) +
            " keys per head in layer " + std::to_string(report.heads[0].layer);
  out.line(line);
  if (report.moment_tokens > 0)
    out.line("  moments of every token: " + grouped(report.moment_tokens) +
             " queries per head behind PCA, rotation and query models");
  print_notes(out, report.notes);
}

}  // namespace qkgeom::examples
