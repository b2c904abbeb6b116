// SPDX-License-Identifier: MIT
// Figures of a report's PCA and rotation.
#include "examples/common/figures/head_figures.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "examples/common/figures/head_cells.hpp"
#include "examples/common/labels.hpp"
#include "examples/common/table.hpp"

namespace qkgeom::examples {

colour class_colour(head_class c) {
  switch (c) {
    case head_class::position_dominated:
      return palette::vermilion;
    case head_class::q_positional:
      return palette::blue;
    case head_class::k_positional:
      return palette::green;
    case head_class::content_focused:
      return palette::grey;
    case head_class::mixed:
      return palette::purple;
  }
  return palette::black;
}

std::string class_words(head_class c) {
  std::string name(name_of(c));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string head_name(const head_report& head) {
  return "layer " + std::to_string(head.layer) + " head " + std::to_string(head.q_head) +
         (head.rope ? ", RoPE" : ", NoPE");
}

std::string counted(std::size_t n, const std::string& singular) {
  return std::to_string(n) + " " + singular + (n == 1 ? "" : "s");
}

scatter_figure class_scatter(const model_report& report, const class_thresholds& t) {
  scatter_figure f;
  std::size_t both = 0;
  for (const auto& h : report.heads) both += h.pca.head_class == head_class::position_dominated;
  f.text = {
      "Queries and keys follow position in " + std::to_string(both) + " of " + counted(report.heads.size(), "head"),
      report.model + brief_notes(report) + ", PCA component 0 of the pooled queries and keys",
      "r_q: correlation of the queries with position", "r_k: correlation of the keys with position"};
  f.thresholds = {t.low, t.high};
  for (const double x : {-1.0, t.high}) {
    const double right = x < 0 ? -t.high : 1.0;
    for (const double y : {-1.0, t.high})
      f.regions.push_back({x, y, right, y < 0 ? -t.high : 1.0, class_colour(head_class::position_dominated)});
    f.regions.push_back({x, -t.high, right, t.high, class_colour(head_class::q_positional)});
    f.regions.push_back({-t.low, x, t.low, right, class_colour(head_class::k_positional)});
  }
  f.regions.push_back({-t.low, -t.low, t.low, t.low, class_colour(head_class::content_focused)});
  for (const head_class c : all_head_classes) {
    std::array<scatter_figure::series, 2> kinds;
    std::size_t n = 0;
    for (const auto& h : report.heads) {
      if (h.pca.head_class != c) continue;
      ++n;
      auto& s = kinds[h.rope ? 0 : 1];
      s.add(h.pca.r_q[0], h.pca.r_k[0]);
    }
    kinds[0].name = class_words(c) + " (" + std::to_string(n) + ")";
    kinds[1].shape = marker::diamond;
    for (auto& s : kinds) {
      s.fill = class_colour(c);
      f.points.push_back(std::move(s));
    }
  }
  if (has_both_kinds(report)) {
    f.points.push_back({"RoPE layer", palette::black, marker::circle, {}, {}});
    f.points.push_back({"NoPE layer", palette::black, marker::diamond, {}, {}});
  }
  return f;
}

map_figure correlation_map(const model_report& report) {
  map_figure f;
  f.text = {"How far queries and keys follow position, by layer and head", about(report) + ", PCA component 0",
            "query head", "layer"};
  f.panels.push_back({"r_q, queries", cells_of(report, f, [](const head_report& h) { return h.pca.r_q[0]; })});
  f.panels.push_back(
      {"r_k, keys of the head's group", cells_of(report, f, [](const head_report& h) { return h.pca.r_k[0]; })});
  f.diverge_to(1);
  f.scale_label = "correlation with position";
  return f;
}

map_figure bias_map(const model_report& report, double limit) {
  map_figure f;
  f.text = {"Where position alone favours later keys", about(report) + "; red: later keys win, blue: earlier keys",
            "query head", "layer"};
  f.panels.push_back({"bias strength × " + std::to_string(report.context_length) + " tokens, logits",
                      cells_of(report, f, [&](const head_report& h) { return h.rotation.bias.context_logits; })});
  double largest = 0;
  for (const auto& h : report.heads) largest = std::max(largest, std::abs(h.rotation.bias.context_logits));
  f.diverge_to(limit > 0 ? limit : largest > 0 ? largest : 1);
  f.digits = largest >= 10 ? 1 : 2;
  f.scale_label = "logits over the context";
  return f;
}

map_figure bias_in_sd_map(const model_report& report, double limit) {
  map_figure f;
  f.text = {"How position weighs against content", about(report) + "; red: later keys win, blue: earlier keys",
            "query head", "layer"};
  f.panels.push_back({"bias over the context / sd of a score difference",
                      cells_of(report, f, [](const head_report& h) { return h.rotation.bias.context_in_sd; })});
  f.diverge_to(limit);
  f.scale_label = "standard deviations";
  return f;
}

histogram_figure bias_histogram(const model_report& report) {
  histogram_figure f;
  std::array<histogram_figure::group, 2> kinds;
  std::size_t later = 0;
  for (const auto& h : report.heads) {
    kinds[h.rope ? 0 : 1].values.push_back(h.rotation.bias.context_logits);
    later += h.rotation.bias.strength > 0;
  }
  const double share = report.heads.empty() ? 0 : static_cast<double>(later) / static_cast<double>(report.heads.size());
  f.text = {
      "In " + percent(share) + " of the heads position alone favours later keys", about(report),
      "bias strength: logits that a key gains over a context of " + std::to_string(report.context_length) + " tokens",
      "heads"};
  const char* names[] = {"rope", "nope"};
  const colour fills[] = {rope_colour, nope_colour};
  for (std::size_t i = 0; i < 2; ++i) {
    if (kinds[i].values.empty()) continue;
    kinds[i].name = words_for_heads(names[i]) + " (" + counted(kinds[i].values.size(), "head") + ")";
    kinds[i].fill = fills[i];
    f.groups.push_back(std::move(kinds[i]));
  }
  return f;
}

namespace {

double dot_row(const double* row, const std::vector<double>& axis) {
  double sum = 0;
  for (std::size_t c = 0; c < axis.size(); ++c) sum += row[c] * axis[c];
  return sum;
}

/// Projections of one side's rows on the two axes; at most `max_rows` are drawn. The means run over sixteenths of the
/// context and use every row.
template <class T>
plane_figure::cloud cloud_of(const matrix_view<const T>& x, const vector_view<const std::int32_t>& position,
                             const rotation_result& r, double context_length, std::size_t max_rows) {
  constexpr std::size_t stretches = 16;
  plane_figure::cloud c;
  std::array<double, stretches> n{}, sum_x{}, sum_y{};
  const std::size_t rows = x.rows;
  std::vector<double> row(x.cols);
  for (std::size_t i = 0; i < rows; ++i) {
    const T* source = x.row(i);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = static_cast<double>(source[j]);
    const double t = position[i], a = dot_row(row.data(), r.drift_axis), b = dot_row(row.data(), r.separation_axis);
    const auto s = std::min(stretches - 1, static_cast<std::size_t>(stretches * std::max(0.0, t) / context_length));
    ++n[s];
    sum_x[s] += a;
    sum_y[s] += b;
    // Evenly spaced: row i is drawn when i * max_rows / rows reaches a new integer.
    if (rows > max_rows && i > 0 && i * max_rows / rows == (i - 1) * max_rows / rows) continue;
    c.x.push_back(a);
    c.y.push_back(b);
    c.position.push_back(t);
  }
  for (std::size_t s = 0; s < stretches; ++s) {
    c.mean_x.push_back(n[s] > 0 ? sum_x[s] / n[s] : no_value);
    c.mean_y.push_back(n[s] > 0 ? sum_y[s] / n[s] : no_value);
  }
  return c;
}

/// " (1500 of 4531)", or nothing if every row is drawn.
std::string drawn_words(const plane_figure::cloud& c, index_t rows) {
  const auto n = static_cast<index_t>(c.x.size());
  return n == rows ? "" : " (" + std::to_string(n) + " of " + std::to_string(rows) + ")";
}

}  // namespace

plane_figure head_plane(const model_report& report, const head_report& head, const captured_layer& layer,
                        std::size_t max_rows) {
  const auto at = std::find(layer.query_heads.begin(), layer.query_heads.end(), head.q_head);
  require(at != layer.query_heads.end(), head_name(head), " is not in this layer of the capture");
  plane_figure f;
  f.context_length = static_cast<double>(report.context_length);
  layer.visit([&](const auto& view) {
    const auto rows = view.head(at - layer.query_heads.begin());
    f.clouds.push_back(cloud_of(rows.q, rows.q_position, head.rotation, f.context_length, max_rows));
    f.clouds.push_back(cloud_of(rows.k, rows.k_position, head.rotation, f.context_length, max_rows));
  });
  f.clouds[0].name = "queries" + drawn_words(f.clouds[0], head.queries);
  f.clouds[0].ramp = query_ramp;
  f.clouds[1].name = "keys" + drawn_words(f.clouds[1], head.keys);
  f.clouds[1].ramp = key_ramp;
  f.clouds[1].shape = marker::triangle;
  std::string name = head_name(head);
  name[0] = 'L';
  f.text = {name + ": bias " + signed_significant(head.rotation.bias.context_logits) + " logits over the context",
            report.model + brief_notes(report) + ", " + percent(head.rotation.plane_var_fraction) +
                " of the variance lies in this plane",
            "projection on the drift axis a", "projection on the separation axis b"};
  return f;
}

}  // namespace qkgeom::examples
