// SPDX-License-Identifier: MIT
#include "examples/heads/tables.hpp"

#include <algorithm>
#include <cmath>

#include "examples/common/figures/head_figures.hpp"
#include "examples/common/labels.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {

std::vector<compared_model> analyse_contexts(const arguments& a, const analysis_options& options,
                                             std::vector<index_t> lengths) {
  const auto source = capture_set::open(a.captures);
  const auto& manifest = source.manifest();
  const index_t whole = manifest.context_length;
  require(options.bucket_edges.empty(),
          "--max-position scales the query buckets: give --bucket-size, not --bucket-edges");
  for (const index_t length : lengths)
    require(length > 0 && length <= whole, "--max-position ", length, " lies outside of the context of ", whole,
            " tokens");
  lengths.push_back(whole);
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  const auto size = static_cast<double>(options.bucket_size > 0 ? options.bucket_size : manifest.usual_bucket_size());
  std::vector<compared_model> contexts;
  for (const index_t length : lengths) {
    auto some = a;
    some.max_position = length;
    auto scaled = options;
    scaled.geometry_blocks = 10;
    scaled.bucket_size =
        std::max<index_t>(1, std::llround(size * static_cast<double>(length) / static_cast<double>(whole)));
    const auto found = analyse_capture(some, scaled);
    contexts.push_back(
        compare_by(found.report, found.report.model, manifest.family.value_or(manifest.model.model_type), {}, {}));
  }
  return contexts;
}

void write_contexts(output_folder& out, const std::vector<compared_model>& contexts) {
  out.write("contexts.csv", models_table(contexts));
  step_figure f;
  f.text = {"What the length of the context alone changes",
            contexts[0].label + ", the same rows as if the context ended at each length; bars: 95 % intervals",
            "length of the context (tokens)", "share of heads, or plasticity"};
  f.y_low = 0;
  f.y_high = 1;
  f.lines = {{"position-dominated heads", class_colour(head_class::position_dominated), {}, {}},
             {"content-focused heads", class_colour(head_class::content_focused), {}, {}},
             {"plasticity, whole context", palette::blue, {}, {}},
             {"plasticity, last 20 %", palette::blue, {}, {}, true}};
  const char* const numbers[] = {"share_position_dominated", "share_content_focused", "ap_overall", "ap_last_20pct"};
  for (const auto& c : contexts) {
    f.steps.push_back(grouped(c.context_length));
    for (std::size_t i = 0; i < f.lines.size(); ++i) {
      const auto e = c.groups.at(0).number(numbers[i]).estimate();
      f.lines[i].add(e.value, i < 2 ? NAN : half_width(e));  // shares move in steps: their errors say little
    }
  }
  draw(f, out.figure("contexts"));
}

void print_contexts(printer& out, const std::vector<compared_model>& contexts) {
  out.heading("By the length of the context: means over all heads ± standard error over documents");
  out.line("  The same rows as if the context ended there; head classes above all depend on it.\n");
  table t({"context"}, {"bucket", "position-dominated", "content-focused", "|bias| × context, logits", "AP overall",
                        "first 20 %", "last 20 %", "drop"});
  for (const auto& c : contexts) {
    const auto& g = c.groups.at(0);
    const auto text = [&](const char* number) { return with_error(g.number(number).estimate()); };
    t.row({grouped(c.context_length), grouped(c.bucket_size), percent(g.number("share_position_dominated").value),
           percent(g.number("share_content_focused").value), text("abs_bias_context_logits"), text("ap_overall"),
           text("ap_first_20pct"), text("ap_last_20pct"), text("ap_drop")});
  }
  out.print(t);
  for (const auto& c : contexts)
    if (c.notes != contexts.back().notes) print_notes(out, c.notes, grouped(c.context_length) + " tokens");
}

}  // namespace qkgeom::examples
