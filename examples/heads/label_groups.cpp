// SPDX-License-Identifier: MIT
#include "examples/heads/label_groups.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "examples/common/labels.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/io/csv.hpp"

namespace qkgeom::examples {
namespace {

/// The first layer and side in which the documents have no rows, "no keys in layer 3"; empty: none.
std::string missing_rows(const std::vector<index_t>& documents, const std::vector<index_t>& layers,
                         const std::vector<capture_set::row_documents>& rows) {
  const auto none_in = [&](const std::vector<std::int32_t>& held) {
    return std::none_of(documents.begin(), documents.end(), [&](index_t e) {
      return std::binary_search(held.begin(), held.end(), static_cast<std::int32_t>(e));
    });
  };
  for (std::size_t l = 0; l < layers.size(); ++l)
    for (const bool keys : {false, true})
      if (none_in(keys ? rows[l].k : rows[l].q))
        return std::string("no ") + (keys ? "keys" : "queries") + " in layer " + std::to_string(layers[l]);
  return {};
}

}  // namespace

std::vector<labelled_documents> documents_by_label(const std::vector<std::filesystem::path>& captures,
                                                   const std::string& label) {
  std::map<std::string, std::vector<index_t>> documents;
  std::vector<index_t> all;
  bool known = false;
  std::set<std::string> names;
  const auto source = capture_set::open(captures);
  for (const auto& d : source.listed_documents()) {
    std::string value;
    if (d.labels.is_object()) {
      for (const auto& entry : d.labels.items()) names.insert(entry.key());
      if (const auto found = d.labels.find(label); found != d.labels.end() && !found->is_null()) {
        value = found->is_string() ? found->get<std::string>() : found->dump();
        known = true;
      }
    }
    documents[value].push_back(d.index);
    all.push_back(d.index);
  }
  std::string labels;
  for (const auto& name : names) labels += (labels.empty() ? "" : ", ") + printable(name);
  require(known, "--group-by ", label, ": no document of the captures has this label",
          labels.empty() ? std::string(", nor any other") : ", but there are " + labels);
  require(documents.size() > 1, "--group-by ", label, ": all documents have the value ",
          printable(documents.begin()->first));
  std::sort(all.begin(), all.end());
  std::vector<capture_set::row_documents> rows;
  for (const index_t layer : source.layers()) rows.push_back(source.documents_in(layer));
  std::vector<labelled_documents> groups;
  std::map<std::string, std::string> folders;
  for (auto& [value, inside] : documents) {
    const std::string folder = file_name_of(label + "=" + value);
    const auto [first, is_new] = folders.emplace(folder, value);
    require(is_new, "--group-by ", label, ": the values ", printable(first->second), " and ", printable(value),
            " would share the folder ", printable(folder));
    std::sort(inside.begin(), inside.end());
    labelled_documents g{value, folder, std::move(inside), {}};
    std::set_difference(all.begin(), all.end(), g.inside.begin(), g.inside.end(), std::back_inserter(g.others));
    g.missing = missing_rows(g.inside, source.layers(), rows);
    g.others_incomplete = !missing_rows(g.others, source.layers(), rows).empty();
    groups.push_back(std::move(g));
  }
  require(std::any_of(groups.begin(), groups.end(), [](const auto& g) { return g.missing.empty(); }), "--group-by ",
          label, ": no value's documents have queries and keys in every layer");
  return groups;
}

void write_groups_csv(const std::filesystem::path& path, const std::vector<document_group>& groups) {
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

void print_groups(printer& out, const std::vector<document_group>& groups) {
  out.heading("By " + groups.at(0).label + ": means over all heads ± standard error over documents");
  out.line("  PCA, rotation and query models of the captured rows alone: moments of every token are of all documents");
  table t({groups[0].label}, {"documents", "AP overall", "AP_drop", "minus the rest's", "bias × context, logits",
                              "minus the rest's", "position-dominated"});
  for (const auto& g : groups) {
    const auto& in = g.inside.groups.at(0);
    const auto rest = [&](const char* name) {
      return g.outside.empty() ? std::string("-")
                               : with_error(difference_of(in.number(name), g.outside.at(0).number(name), false), true);
    };
    t.row({g.value.empty() ? "(none)" : g.value, std::to_string(g.inside.documents),
           with_error(in.number("ap_overall").estimate()), with_error(in.number("ap_drop").estimate()), rest("ap_drop"),
           with_error(in.number("bias_context_logits").estimate()), rest("bias_context_logits"),
           percent(in.number("share_position_dominated").value)});
  }
  out.print(t);
  for (const auto& g : groups) print_notes(out, g.inside.notes, g.value.empty() ? "(none)" : g.value);
}

}  // namespace qkgeom::examples
