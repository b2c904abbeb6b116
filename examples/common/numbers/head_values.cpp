// SPDX-License-Identifier: MIT
#include "examples/common/numbers/head_values.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "qkgeom/report/columns.hpp"

namespace qkgeom::examples {

bool head_values::changes(std::size_t document, const std::vector<std::size_t>& heads) const {
  return std::any_of(heads.begin(), heads.end(),
                     [&](std::size_t h) { return differs(without[document][h], value[h]); });
}

head_estimate group_number::estimate() const {
  head_estimate e{value};
  e.head_error = head_error;
  e.set_error(jackknife(value, without));
  return e;
}

group_number number_over(const head_values& column, const std::vector<std::size_t>& heads, head_statistic statistic) {
  const auto whole = column.at(-1, heads);
  group_number n{column.name, statistic_of(statistic, whole), {}, head_error_of(statistic, whole)};
  for (std::size_t e = 0; e < column.without.size(); ++e)
    n.without.push_back(column.changes(e, heads) ? statistic_of(statistic, column.at(static_cast<index_t>(e), heads))
                                                 : std::numeric_limits<double>::quiet_NaN());
  if (std::isnan(n.estimate().error)) n.without.clear();  // nor have differences from it an error then
  return n;
}

head_estimate estimate_over_heads(const std::vector<const head_values*>& columns, const std::vector<std::size_t>& heads,
                                  const std::function<double(index_t, const std::vector<std::size_t>&)>& value) {
  head_estimate e;
  e.value = value(-1, heads);
  if (std::isnan(e.value)) return e;
  std::vector<double> without;
  for (std::size_t d = 0; d < columns.at(0)->without.size(); ++d)
    if (std::any_of(columns.begin(), columns.end(), [&](const auto* c) { return c->changes(d, heads); }))
      without.push_back(value(static_cast<index_t>(d), heads));
  e.set_error(jackknife(e.value, without));
  without.clear();
  for (std::size_t i = 0; heads.size() > 1 && i < heads.size(); ++i) {
    auto rest = heads;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    without.push_back(value(-1, rest));
  }
  e.head_error = jackknife_error(without, 2);
  return e;
}

std::vector<std::int32_t> profile_documents(const model_report& report) {
  std::vector<std::int32_t> ids;
  for (const auto& h : report.heads)
    if (!h.profiles.empty()) ids.insert(ids.end(), h.profiles[0].documents.begin(), h.profiles[0].documents.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  ids.erase(std::remove_if(ids.begin(), ids.end(), [](std::int32_t id) { return id < 0; }), ids.end());
  return ids;
}

head_values plasticity_between(const model_report& report, double start, double end) {
  const auto documents = profile_documents(report);
  const double null = std::numeric_limits<double>::quiet_NaN();
  head_values r{"plasticity", std::vector<double>(report.heads.size(), null), {}};
  r.without.assign(documents.size(), r.value);
  for (std::size_t h = 0; h < report.heads.size(); ++h) {
    if (report.heads[h].profiles.empty()) continue;
    const auto& p = report.heads[h].profiles[0];
    const profile_means means(p);
    r.value[h] = means.mean({start, end});
    for (std::size_t e = 0; e < documents.size(); ++e) {
      const auto at = std::find(p.documents.begin(), p.documents.end(), documents[e]);
      r.without[e][h] = at == p.documents.end() ? r.value[h] : means.mean({start, end}, at - p.documents.begin());
    }
  }
  return r;
}

std::vector<head_values> plasticity_by_bucket(const model_report& report) {
  std::vector<head_values> buckets;
  for (index_t b = 0; b < report.buckets.count(); ++b)
    buckets.push_back(plasticity_between(report, static_cast<double>(report.buckets.start(b)),
                                         static_cast<double>(report.buckets.end(b))));
  return buckets;
}

const head_values& trajectory_point::column(const std::string& name) const {
  for (const auto& c : columns)
    if (c.name == name) return c;
  fail("checkpoint ", label, " has no column ", name);
}

namespace {

void add_geometry(trajectory_point& point, const model_report& report) {
  const std::size_t replicates = report.heads[0].geometry.without.size();
  for (const auto* list : {&pca_columns(), &rotation_columns()})
    for (const auto& c : *list) point.columns.push_back({c.name, {}, std::vector<std::vector<double>>(replicates)});
  point.classes_without.resize(replicates);
  for (const auto& h : report.heads) {
    require(h.geometry.without.size() == replicates, "layer ", h.layer,
            ": one block of documents has all of its queries or all of its keys, so that it cannot be left out there");
    const auto read = [&](const head_report& from, auto&& put) {
      std::size_t i = 0;
      for (const auto* list : {&pca_columns(), &rotation_columns()})
        for (const auto& c : *list) put(point.columns[i++], c.value(from));
    };
    read(h, [](head_values& column, double x) { column.value.push_back(x); });
    point.classes.push_back(h.pca.head_class);
    auto scratch = h;
    for (std::size_t b = 0; b < replicates; ++b) {
      scratch.pca = h.geometry.without[b].pca;
      scratch.rotation = h.geometry.without[b].rotation;
      read(scratch, [b](head_values& column, double x) { column.without[b].push_back(x); });
      point.classes_without[b].push_back(scratch.pca.head_class);
    }
  }
}

/// A profile's aggregates without the document of this number, given the query model.
void leave_out(profile_summary& s, const plasticity_profile_result& p, const profile_means& means,
               index_t context_length, std::int32_t document) {
  const auto at = std::find(p.documents.begin(), p.documents.end(), document);
  const auto values = means.summary(context_length, at == p.documents.end() ? -1 : at - p.documents.begin());
  estimate* const numbers[] = {&s.overall, &s.first20, &s.last20, &s.drop};
  for (std::size_t i = 0; i < 4; ++i) numbers[i]->value = values[i];
}

void add_plasticity(trajectory_point& point, const model_report& report) {
  const auto documents = profile_documents(report);
  const std::size_t first = point.columns.size();
  for (const auto& c : plasticity_columns())
    point.columns.push_back({c.name, {}, std::vector<std::vector<double>>(documents.size())});
  for (const auto& h : report.heads) {
    std::size_t i = first;
    for (const auto& c : plasticity_columns()) point.columns[i++].value.push_back(c.value(h));
    auto scratch = h;
    const profile_means means(h.profiles[0]);
    std::optional<plasticity_profile_result> corrected;
    std::optional<profile_means> observed_means, corrected_means;
    if (h.empirical) {
      corrected = unbiased(*h.empirical);
      observed_means.emplace(*h.empirical);
      corrected_means.emplace(*corrected);
    }
    for (std::size_t e = 0; e < documents.size(); ++e) {
      leave_out(scratch.summaries[0], h.profiles[0], means, report.context_length, documents[e]);
      if (corrected) {
        leave_out(*scratch.empirical_summary, *h.empirical, *observed_means, report.context_length, documents[e]);
        leave_out(*scratch.empirical_unbiased, *corrected, *corrected_means, report.context_length, documents[e]);
      }
      i = first;
      for (const auto& c : plasticity_columns()) point.columns[i++].without[e].push_back(c.value(scratch));
    }
  }
}

/// The share of the heads whose entry of a list of all heads is `in`: in `values`, and in each of `without`.
template <class List, class In>
group_number share_number(std::string name, const List& values, const std::vector<List>& without,
                          const std::vector<std::size_t>& heads, const In& in) {
  const auto share = [&](const List& list) { return share_of(heads, [&](std::size_t h) { return in(list[h]); }); };
  group_number n{std::move(name), share(values), {}, {}};
  n.head_error = share_error(n.value, heads.size());
  for (const auto& list : without) n.without.push_back(share(list));
  return n;
}

}  // namespace

trajectory_point point_of(const model_report& report, std::string label, std::optional<double> heldout_loss) {
  require(!report.heads.empty(), "checkpoint ", label, ": its report has no heads");
  require(!report.heads[0].pca.r_q.empty(), "checkpoint ", label, ": training dynamics needs PCA and rotation");
  trajectory_point point{
      std::move(label), report.context_length, heldout_loss, report.heads[0].geometry.blocks, {}, {}, {}, {}};
  for (const auto& h : report.heads) point.heads.push_back({h.layer, h.q_head, h.rope});
  add_geometry(point, report);
  if (!report.heads[0].profiles.empty()) add_plasticity(point, report);
  return point;
}

void check_comparable(const trajectory_point& a, const trajectory_point& b) {
  require(a.heads == b.heads, "checkpoint ", b.label, " has other heads than ", a.label,
          "; capture the same layers and heads of each");
  require(a.columns.size() == b.columns.size(), "checkpoint ", b.label, " was analysed otherwise than ", a.label);
}

group_number class_share(const trajectory_point& point, const std::vector<std::size_t>& heads, head_class wanted) {
  return share_number("share_" + std::string(name_of(wanted)), point.classes, point.classes_without, heads,
                      [&](head_class c) { return c == wanted; });
}

group_number positive_bias_share(const trajectory_point& point, const std::vector<std::size_t>& heads) {
  const auto& bias = point.column("bias_strength");
  return share_number("share_positive_bias", bias.value, bias.without, heads, [](double x) { return x > 0; });
}

std::vector<column_summary> column_summaries(const model_report& report) {
  const auto point = point_of(report, report.model);
  std::vector<column_summary> all;
  for (const auto& [name, heads] : head_groups(report.heads))
    for (const auto& c : point.columns)
      all.push_back({name, c.name, static_cast<index_t>(values_of(c.value, heads).size()),
                     over_heads(c, heads, head_statistic::mean), over_heads(c, heads, head_statistic::mean_abs),
                     over_heads(c, heads, head_statistic::median)});
  return all;
}

qkgeom::table model_columns_table(const std::vector<column_summary>& summaries) {
  table_columns<column_summary> c;
  c.add("group", group_meaning, &column_summary::group);
  c.add("column", "name of a column of heads.csv", &column_summary::column);
  c.add("heads", "number of heads that have a value", &column_summary::heads);
  c.add("mean", "signed mean over heads", &column_summary::mean);
  c.add("mean_abs", "mean over heads of absolute values", &column_summary::mean_abs);
  c.add("median", "median over heads; its `_head_error` is the bootstrap's in closed form", &column_summary::median);
  return std::move(c).with_rows(summaries);
}

qkgeom::table layers_table(const model_report& report) {
  auto point = std::make_shared<trajectory_point>(point_of(report, report.model));
  // Errors of a head are left out: the mean has an error of its own.
  std::erase_if(point->columns, [](const head_values& c) { return c.name.ends_with("_error"); });
  using heads_of_layer = std::vector<std::size_t>;
  table_columns<heads_of_layer> c;
  const auto of = c.of([&report](const heads_of_layer& heads) { return &report.heads[heads[0]]; });
  of.add("layer", "number of the layer", &head_report::layer);
  of.add("rope", "1 in layers with rotary embedding, else 0", &head_report::rope);
  c.add("heads", "number of captured heads of the layer", [](auto& heads) { return heads.size(); });
  for (const auto& column : point->columns)
    c.add(column.name, "mean over the layer's heads of " + column.name,
          [point, &column](auto& heads) { return over_heads(column, heads, head_statistic::mean); });
  return std::move(c).with_rows([&report](const auto& f) {
    std::map<index_t, heads_of_layer> layers;
    for (std::size_t h = 0; h < report.heads.size(); ++h) layers[report.heads[h].layer].push_back(h);
    for (const auto& [layer, heads] : layers) f(heads);
  });
}

}  // namespace qkgeom::examples
