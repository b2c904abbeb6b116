// SPDX-License-Identifier: MIT
#include "examples/common/numbers/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/head_groups.hpp"

namespace qkgeom::examples {

const group_number& compared_group::number(const std::string& wanted) const {
  for (const auto& n : numbers)
    if (n.name == wanted) return n;
  fail("there is no number called ", wanted, " to compare models by");
}

const compared_group* compared_model::group(const std::string& name) const {
  for (const auto& g : groups)
    if (g.name == name) return &g;
  return nullptr;
}

bool same_documents(const compared_model& a, const compared_model& b) {
  return !a.document_ids.empty() && a.document_ids == b.document_ids && a.profile_documents == b.profile_documents &&
         a.blocks == b.blocks;
}

std::vector<group_number> numbers_to_compare(const compared_group& g) {
  auto all = g.numbers;
  for (const std::string kind : {"quintile", "decile"}) {
    int i = 0;
    for (const auto& b : g.bins)
      if (b.kind == kind) {
        all.push_back(b.plasticity);
        all.back().name = kind + "_" + std::to_string(++i);
      }
  }
  return all;
}

head_estimate difference_of(const group_number& a, const group_number& b, bool paired) {
  head_estimate d{a.value - b.value};
  if (std::isnan(d.value)) return d;
  d.head_error = std::hypot(a.head_error, b.head_error);
  if (!paired || a.without.size() != b.without.size()) {
    d.set_error(independent_difference(jackknife(a.value, a.without), jackknife(b.value, b.without)));
    return d;
  }
  std::vector<double> without;
  const auto of = [](const group_number& x, std::size_t i) {
    return std::isnan(x.without[i]) ? x.value : x.without[i];
  };
  for (std::size_t i = 0; i < a.without.size(); ++i)
    if (!std::isnan(a.without[i]) || !std::isnan(b.without[i])) without.push_back(of(a, i) - of(b, i));
  d.set_error(jackknife(d.value, without));
  return d;
}

namespace {

/// Columns of heads.csv that summarise a model by their means over heads; a leading |: means of absolute values, under
/// the name abs_COLUMN.
constexpr std::string_view headline_columns =
    "ap_overall,ap_first_20pct,ap_last_20pct,ap_drop,ap_empirical_unbiased,ev_pc0,|r_q_pc0,|r_k_pc0,q_linear_share,"
    "k_linear_share,|r_q_a,|r_k_a,|mu_q_a,|alpha_k,|alpha_k_context,bias_strength,|bias_strength,bias_context,"
    "|bias_context,bias_context_in_sd,|bias_context_in_sd,separation_strength,plane_var_fraction,bias_strength_logits,"
    "|bias_strength_logits,bias_context_logits,|bias_context_logits";

/// The columns of the first principal components, `most` at most.
std::vector<compared_component> compared_components(const model_report& report, const std::vector<std::size_t>& heads,
                                                    std::size_t most) {
  const auto& geometry = report.heads.at(0).geometry;
  const std::size_t n = std::min(most, report.heads[0].pca.r_q.size());
  std::vector<compared_component> all;
  for (std::size_t j = 0; j < n; ++j) {
    const auto number = [&](const char* name, std::vector<double> pca_result::*values) {
      head_values column{name, {}, std::vector<std::vector<double>>(geometry.without.size())};
      for (const auto& h : report.heads) {
        column.value.push_back((h.pca.*values)[j]);
        for (std::size_t b = 0; b < column.without.size(); ++b)
          column.without[b].push_back((h.geometry.without[b].pca.*values)[j]);
      }
      return number_over(column, heads, head_statistic::mean_abs);
    };
    all.push_back({number("abs_r_q", &pca_result::r_q), number("abs_r_k", &pca_result::r_k),
                   number("explained_variance", &pca_result::explained_variance)});
  }
  return all;
}

/// "a 128, b 512": a number of each model.
template <class Value>
std::string by_model(const std::vector<compared_model>& models, const Value& value) {
  std::string words;
  for (const auto& m : models) words += (words.empty() ? "" : ", ") + m.label + " " + std::to_string(value(m));
  return words;
}

/// Computes the headline numbers of a group of heads: statistics of columns of heads.csv, the share of heads with a
/// positive bias, and the shares of the head classes.
std::vector<group_number> headline_numbers(const trajectory_point& point, const std::vector<std::size_t>& heads) {
  std::vector<group_number> all;
  for (const auto& name : csv_columns(headline_columns)) {
    const bool absolute = name[0] == '|';
    const std::string column = name.substr(absolute ? 1 : 0);
    all.push_back(number_over(point.column(column), heads, absolute ? head_statistic::mean_abs : head_statistic::mean));
    all.back().name = (absolute ? "abs_" : "") + column;
  }
  all.push_back(positive_bias_share(point, heads));
  for (const head_class c : all_head_classes) all.push_back(class_share(point, heads, c));
  return all;
}

/// Describes a headline number by its name.
std::string headline_meaning(const std::string& name) {
  if (name == "share_positive_bias") return "share of heads whose bias strength is positive";
  if (name.starts_with("share_")) return "share of heads of the class " + name.substr(6);
  return name.starts_with("abs_") ? "mean over heads of abs(" + name.substr(4) + ")" : "mean over heads of " + name;
}

}  // namespace

std::vector<report_note> notes_of(const std::vector<compared_model>& models) {
  std::vector<report_note> notes;
  const auto differ = [&](auto value) {
    return std::any_of(models.begin(), models.end(), [&](const auto& m) { return value(m) != value(models[0]); });
  };
  const auto width = [](const compared_model& m) { return m.bucket_size; };
  const auto length = [](const compared_model& m) { return m.context_length; };
  const auto documents = [](const compared_model& m) { return m.documents; };
  const auto share = [](const compared_model& m) {
    return static_cast<double>(m.bucket_size) / static_cast<double>(m.context_length);
  };
  if (differ(width) && differ(share))
    notes.push_back({"buckets_differ",
                     "query buckets differ in width, tokens: " + by_model(models, width) +
                         ", and in their share of the context: plasticity grows with the width; --bucket-size makes "
                         "them alike",
                     "query buckets differ"});
  if (differ(length))
    notes.push_back({"contexts_differ",
                     "contexts differ in length, tokens: " + by_model(models, length) +
                         "; head classes, bias × context and AP_drop depend on it",
                     "contexts differ"});
  if (differ(documents))
    notes.push_back(
        {"documents_differ",
         "documents differ in number: " + by_model(models, documents) + "; differences take them for independent",
         "documents differ"});
  return notes;
}

compared_model compare_by(const model_report& report, std::string label, std::string family,
                          std::vector<std::string> document_ids, const std::vector<double>& token_edges) {
  const auto point = point_of(report, label);
  require(!report.heads[0].profiles.empty(), "model ", label, ": models are compared by plasticity too");
  constexpr std::size_t components = 10;
  compared_model m{.label = std::move(label),
                   .family = std::move(family),
                   .context_length = report.context_length,
                   .bucket_size = report.buckets.count() > 0 ? report.buckets.end(0) - report.buckets.start(0) : 0,
                   .rope_stage = report.rope_stage,
                   .documents = point.blocks.document.size(),
                   .document_ids = std::move(document_ids),
                   .groups = {},
                   .heads = {},
                   .profile_documents = profile_documents(report),
                   .blocks = point.blocks,
                   .notes = report.notes};
  struct stretch {
    const char* kind;
    double start, end;
    head_values plasticity;
  };
  std::vector<stretch> stretches;
  const auto add = [&](const char* kind, const std::vector<double>& edges) {
    for (std::size_t i = 0; i + 1 < edges.size(); ++i)
      stretches.push_back({kind, edges[i], edges[i + 1], plasticity_between(report, edges[i], edges[i + 1])});
  };
  add("quintile", equal_bins(report.context_length, 5));
  add("decile", equal_bins(report.context_length, 10));
  add("length", length_bins(report.context_length));
  add("tokens", token_edges);
  for (const auto& [name, heads] : head_groups(report.heads)) {
    compared_group g{name, static_cast<index_t>(heads.size()), headline_numbers(point, heads), {}, {}};
    for (const auto& s : stretches)
      g.bins.push_back({s.kind, s.start, s.end, number_over(s.plasticity, heads, head_statistic::mean)});
    g.components = compared_components(report, heads, components);
    m.groups.push_back(std::move(g));
  }
  for (const auto& h : report.heads)
    m.heads.push_back({h.rope, h.pca.r_q[0], h.pca.r_k[0], h.rotation.bias.strength, h.rotation.bias.context,
                       h.rotation.separation_strength, h.rotation.bias.context_logits});
  return m;
}

qkgeom::table models_table(const std::vector<compared_model>& models) {
  struct row {
    const compared_model* model;
    const compared_group* group;
  };
  table_columns<row> c;
  c.of(&row::model).add("model", "label of the model", &compared_model::label);
  c.of(&row::model).add("family", "family of the model", &compared_model::family);
  c.of(&row::group).add("group", group_meaning, &compared_group::name);
  c.of(&row::group).add("heads", "number of heads in the group", &compared_group::heads);
  c.of(&row::model)
      .add("context_length", "length L of the context, tokens", &compared_model::context_length)
      .add("documents", "number of documents whose rows or moments count", &compared_model::documents)
      .add("bucket_size", "width of the first query bucket, tokens", &compared_model::bucket_size)
      .add("rope_stage", "`post`, or `pre`: rows from before the rotary embedding", &compared_model::rope_stage);
  const auto& numbers = models.at(0).groups.at(0).numbers;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    c.add(numbers[i].name, headline_meaning(numbers[i].name), [i](auto& r) { return r.group->numbers[i].estimate(); });
  return std::move(c).with_rows([&models](const auto& f) {
    for (const auto& m : models)
      for (const auto& g : m.groups) f(row{&m, &g});
  });
}

}  // namespace qkgeom::examples
