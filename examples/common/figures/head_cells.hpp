// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "examples/common/figures/figure.hpp"
#include "examples/common/figures/head_figures.hpp"
#include "examples/common/numbers/head_values.hpp"

namespace qkgeom::examples {

inline constexpr double no_value = std::numeric_limits<double>::quiet_NaN();
inline constexpr colour rope_colour = palette::blue, nope_colour = palette::vermilion;

/// Whether some heads of a report have a rotary embedding and some have none.
template <class Report>
bool has_both_kinds(const Report& report) {
  return head_groups(report.heads).size() > 1;
}

/// The brief forms of the report's notes, each after a comma.
inline std::string brief_notes(const model_report& report) {
  std::string words;
  for (const auto& n : report.notes)
    if (!n.brief.empty()) words += ", " + n.brief;
  return words;
}

/// The lines of single heads in a line figure.
inline std::string heads_words(const line_figure& f) {
  const bool many = std::any_of(f.groups.begin(), f.groups.end(),
                                [](const auto& g) { return g.traces.size() > line_figure::most_traces; });
  return many ? "pale: half and nine tenths of the heads" : "thin: one head";
}

/// Sets the figure's x to the middles of the query buckets and its end to `context_length`.
inline void set_positions(line_figure& f, const bucket_edges& buckets, index_t context_length) {
  for (index_t b = 0; b < buckets.count(); ++b) f.x.push_back(buckets.middle(b));
  f.x_end = static_cast<double>(context_length);
}

inline std::string about(const model_report& report) {
  return report.model + brief_notes(report) + ", " + counted(report.heads.size(), "query head");
}

/// Sets the map's rows to the layers and its columns to the query heads of `places`. Returns the values, one per place,
/// by cell, NaN for other heads.
inline std::vector<double> cells_of(const std::vector<head_place>& places, map_figure& f,
                                    const std::vector<double>& values) {
  std::map<index_t, bool> layers;
  index_t heads = 0;
  for (const auto& h : places) {
    layers[h.layer] = h.rope;
    heads = std::max(heads, h.q_head + 1);
  }
  f.rows.clear();
  f.columns.clear();
  std::map<index_t, std::size_t> row;
  const bool both = head_groups(places).size() > 1;
  for (const auto& [layer, rope] : layers) {
    row[layer] = f.rows.size();
    f.rows.push_back((both && !rope ? "NoPE " : "") + std::to_string(layer));
  }
  for (index_t h = 0; h < heads; ++h) f.columns.push_back(std::to_string(h));
  std::vector<double> cells(f.rows.size() * f.columns.size(), no_value);
  for (std::size_t i = 0; i < places.size(); ++i)
    cells[row[places[i].layer] * f.columns.size() + places[i].q_head] = values[i];
  return cells;
}

/// Does the same for the heads of a report and value(h).
template <class Report, class Value>
std::vector<double> cells_of(const Report& report, map_figure& f, const Value& value) {
  std::vector<head_place> places;
  std::vector<double> values;
  for (const auto& h : report.heads) {
    places.push_back({h.layer, h.q_head, h.rope});
    values.push_back(value(h));
  }
  return cells_of(places, f, values);
}

}  // namespace qkgeom::examples
