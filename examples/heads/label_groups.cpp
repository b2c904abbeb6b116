// SPDX-License-Identifier: MIT
#include "examples/heads/tables.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "examples/common/labels.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/report/columns.hpp"

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
  constexpr std::size_t most_values = 1000;
  require(documents.size() <= most_values, "--group-by ", label, ": the documents have ", documents.size(),
          " values, more than the ", most_values, " that it analyses one by one");
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

qkgeom::table groups_table(const std::vector<document_group>& groups) {
  struct row {
    const document_group* of;
    std::size_t i;
    const compared_group* group;
  };
  table_columns<row> c;
  c.of(&row::of)
      .add("label", "name of the label", &document_group::label)
      .add("value", "value of the label; empty: documents without it", &document_group::value);
  c.of(&row::group).add("group", group_meaning, &compared_group::name);
  c.of(&row::of).add("documents", "number of documents", [](auto& g) { return g.inside.documents; });
  c.of(&row::group).add("heads", "number of heads in the group", &compared_group::heads);
  const auto& numbers = groups.at(0).inside.groups.at(0).numbers;
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    const auto without_head_error = [](const head_estimate& e) { return estimate{e.value, e.error}; };
    c.add(numbers[n].name, numbers[n].name + " of models.csv over these documents",
          [=](auto& r) { return without_head_error(r.group->numbers[n].estimate()); });
    c.add(numbers[n].name + "_less_rest", numbers[n].name + " less the same of all other documents", [=](auto& r) {
      const auto& rest = r.of->outside;
      return rest.empty() ? estimate{}
                          : without_head_error(difference_of(r.group->numbers[n], rest[r.i].numbers[n], false));
    });
  }
  return std::move(c).with_rows([&groups](const auto& f) {
    for (const auto& g : groups)
      for (std::size_t i = 0; i < g.inside.groups.size(); ++i) f(row{&g, i, &g.inside.groups[i]});
  });
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
