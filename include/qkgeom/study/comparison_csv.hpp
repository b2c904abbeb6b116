// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/study/comparison.hpp"
#include "qkgeom/study/detail/comparison_csv.hpp"

namespace qkgeom {

/// models.csv: a row per model and group of heads with every headline number, each followed by `_error` (jackknife over
/// documents) and `_head_error` (of drawing the heads).
inline void write_models_csv(const std::filesystem::path& path, const std::vector<compared_model>& models) {
  std::vector<std::string> names{"model",          "family",    "group",       "heads",
                                 "context_length", "documents", "bucket_size", "rope_stage"};
  for (const auto& n : models.at(0).groups.at(0).numbers) add_head_estimate_names(names, n.name);
  csv_writer csv(path, names);
  for (const auto& m : models)
    for (const auto& g : m.groups) {
      csv.add(m.label)
          .add(m.family)
          .add(g.name)
          .add(g.heads)
          .add(m.context_length)
          .add(m.documents)
          .add(m.bucket_size)
          .add(m.rope_stage);
      for (const auto& n : g.numbers) add_estimate(csv, n.estimate());
      csv.end_row();
    }
  csv.commit();
}

/// positions.csv: a row per model, group and stretch of the context, tokens; plasticity is empty where no query bucket
/// has its middle there.
inline void write_positions_csv(const std::filesystem::path& path, const std::vector<compared_model>& models) {
  csv_writer csv(path,
                 {"model", "group", "kind", "start", "end", "plasticity", "plasticity_error", "plasticity_head_error"});
  for (const auto& m : models)
    for (const auto& g : m.groups)
      for (const auto& b : g.bins) {
        csv.add(m.label).add(g.name).add(b.kind).add(b.start).add(b.end);
        add_estimate(csv, b.plasticity.estimate());
        csv.end_row();
      }
  csv.commit();
}

/// model_components.csv: a row per model, group and principal component, from 0.
inline void write_model_components_csv(const std::filesystem::path& path, const std::vector<compared_model>& models) {
  std::vector<std::string> names{"model", "group", "pc"};
  for (const char* what : {"abs_r_q", "abs_r_k", "explained_variance"}) add_head_estimate_names(names, what);
  csv_writer csv(path, names);
  for (const auto& m : models)
    for (const auto& g : m.groups)
      for (std::size_t j = 0; j < g.components.size(); ++j) {
        const auto& c = g.components[j];
        csv.add(m.label).add(g.name).add(j);
        for (const auto* n : {&c.abs_r_q, &c.abs_r_k, &c.explained_variance}) add_estimate(csv, n->estimate());
        csv.end_row();
      }
  csv.commit();
}

/// differences.csv: for pairs (a, b) of models by index, a row per group that both have and a number: a's, b's, a - b.
inline void write_differences_csv(const std::filesystem::path& path, const std::vector<compared_model>& models,
                                  const std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
  csv_writer csv(path, {"model", "less", "group", "number", "model_value", "less_value", "difference",
                        "difference_error", "difference_head_error", "ratio", "paired"});
  for (const auto& [i, j] : pairs) {
    const auto &a = models.at(i), &b = models.at(j);
    const bool paired = same_documents(a, b);
    for (const auto& of_a : a.groups) {
      const auto* of_b = b.group(of_a.name);
      if (!of_b) continue;
      const auto x = detail::numbers_to_compare(of_a), y = detail::numbers_to_compare(*of_b);
      for (std::size_t n = 0; n < x.size(); ++n) {
        const auto d = difference_of(x[n], y[n], paired);
        csv.row(a.label, b.label, of_a.name, x[n].name, x[n].value, y[n].value, d.value, d.error, d.head_error,
                x[n].value / y[n].value, paired);
      }
    }
  }
  csv.commit();
}

/// rope_nope.csv: of every model with both kinds of layer, each number over RoPE heads minus that over NoPE heads.
inline void write_rope_nope_csv(const std::filesystem::path& path, const std::vector<compared_model>& models) {
  csv_writer csv(path, {"model", "number", "rope", "nope", "difference", "difference_error", "difference_head_error"});
  for (const auto& m : models) {
    const auto *rope = m.group("rope"), *nope = m.group("nope");
    if (!rope || !nope) continue;
    const auto x = detail::numbers_to_compare(*rope), y = detail::numbers_to_compare(*nope);
    for (std::size_t n = 0; n < x.size(); ++n) {
      const auto d = difference_of(x[n], y[n], true);
      csv.row(m.label, x[n].name, x[n].value, y[n].value, d.value, d.error, d.head_error);
    }
  }
  csv.commit();
}

/// The documents with one value of a label, and all others.
struct document_group {
  std::string label, value;
  compared_model inside;
  std::vector<compared_group> outside;  ///< of all other documents; empty: there are none
};
/// groups.csv: a row per value of a label and group of heads, with every headline number of these documents and how
/// much it is above that of all other documents; these are independent.
inline void write_groups_csv(const std::filesystem::path& path, const std::vector<document_group>& groups) {
  std::vector<std::string> names{"label", "value", "group", "documents", "heads"};
  for (const auto& n : groups.at(0).inside.groups.at(0).numbers)
    for (const char* part : {"", "_error", "_less_rest", "_less_rest_error"}) names.push_back(n.name + part);
  csv_writer csv(path, names);
  for (const auto& g : groups)
    for (std::size_t i = 0; i < g.inside.groups.size(); ++i) {
      const auto& in = g.inside.groups[i];
      csv.add(g.label).add(g.value).add(in.name).add(g.inside.documents).add(in.heads);
      for (std::size_t n = 0; n < in.numbers.size(); ++n) {
        const auto e = in.numbers[n].estimate();
        csv.add(e.value).add(e.error);
        const auto d =
            g.outside.empty() ? head_estimate{} : difference_of(in.numbers[n], g.outside[i].numbers[n], false);
        csv.add(d.value).add(d.error);
      }
      csv.end_row();
    }
  csv.commit();
}

}  // namespace qkgeom
