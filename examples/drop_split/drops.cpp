// SPDX-License-Identifier: MIT
#include "examples/drop_split/split_drop.hpp"

#include <algorithm>
#include <cmath>

#include "examples/common/each_layer.hpp"
#include "examples/common/figures/head_cells.hpp"
#include "examples/common/labels.hpp"
#include "examples/common/terminal.hpp"
#include "qkgeom/io/what_if.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/stats/interval.hpp"

namespace qkgeom::examples {
namespace {

constexpr const char* words[] = {"whole drop", "query's drift", "content means", "variance", "keys", "rest"};

/// Means over a group of heads: drop, the causes in the order of `drop_cause`, rest.
struct drop_means {
  std::string name;
  index_t heads = 0;
  std::array<estimate, drop_causes + 2> mean;
};

/// Adds the columns of a split: the drop, its causes in the order of `drop_cause`, the rest. `part(row, p)` has them.
template <class Row, class Part>
void add_parts(table_columns<Row>& c, const std::string& of, const Part& part) {
  constexpr const char* meanings[] = {"AP_drop",
                                      "contribution of the query's drift term (Shapley value)",
                                      "contribution of the query's other means",
                                      "contribution of the query's covariance",
                                      "contribution of the admitted keys",
                                      "what still falls with all four frozen"};
  for (index_t p = 0; p < drop_causes + 2; ++p)
    c.add(p == 0            ? "drop"
          : p > drop_causes ? "rest"
                            : std::string(name_of(static_cast<drop_cause>(p - 1))),
          of + meanings[p], [part, p](const Row& r) { return part(r, p); });
}

/// Means over the heads of each of `head_groups`; none if there are no heads.
std::vector<drop_means> mean_drops(const std::vector<head_drop>& heads) {
  std::vector<drop_means> groups;
  if (heads.empty()) return groups;
  for (const auto& [name, members] : head_groups(heads)) {
    std::vector<const drop_split*> chosen;
    for (const std::size_t h : members) chosen.push_back(&heads[h].split);
    drop_means g{name, static_cast<index_t>(chosen.size()), {}};
    for (index_t p = 0; p < drop_causes + 2; ++p) g.mean[p] = mean_over_heads(chosen, p);
    groups.push_back(std::move(g));
  }
  return groups;
}

void write_drop_split(output_folder& out, const std::vector<head_drop>& heads) {
  auto c = head_columns<4, head_drop>(std::identity());
  c.add("covariance", "query model", &head_drop::covariance);
  c.add("frozen_keys",
        "`distances`: pairs reweighed to the first fifth's; `turned_back`: keys turned to the bucket's start",
        [](auto& h) { return h.rotated_back ? "turned_back" : "distances"; });
  add_parts(c, "", [](auto& h, index_t p) { return h.split.part(p); });
  out.write("drop_split.csv", std::move(c).with_rows(heads));
}

void write_drop_means(output_folder& out, const std::vector<drop_means>& groups) {
  table_columns<drop_means> c;
  c.add("group", group_meaning, &drop_means::name).add("heads", "number of heads", &drop_means::heads);
  add_parts(c, "mean over heads: ", [](auto& g, index_t p) { return g.mean[p]; });
  out.write("drop_means.csv", std::move(c).with_rows(groups));
}

map_figure terms_by_head(const split_heads& found) {
  map_figure f;
  f.text = {"What lets plasticity fall, by layer and head",
            found.model + ", " + std::string(found.heads[0].covariance) + " query model; the parts add up to the drop",
            "query head", "layer"};
  f.scale_label = "first fifth - last fifth";
  double largest = 0;
  for (index_t p = 0; p < drop_causes + 2; ++p) {
    f.panels.push_back({words[p], cells_of(found, f, [&](const head_drop& h) { return h.split.part(p).value; })});
    for (const double x : f.panels.back().values)
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  f.diverge_to(largest > 0 ? largest : 1);
  return f;
}

step_figure mean_terms(const split_heads& found) {
  step_figure f;
  f.text = {"What lets plasticity fall, mean over heads",
            found.model + ", " + std::string(found.heads[0].covariance) + " query model; bars: 95 % intervals", "",
            "first fifth - last fifth"};
  f.joined = false;
  f.steps.assign(std::begin(words), std::end(words));
  constexpr colour colours[] = {palette::black, rope_colour, nope_colour};
  std::size_t g = 0;
  for (const auto& group : mean_drops(found.heads)) {
    step_figure::series s{words_for_heads(group.name), colours[g], {}, {}};
    for (const auto& m : group.mean) s.add(m.value, half_width(m));
    f.lines.push_back(std::move(s));
    ++g;
  }
  return f;
}

}  // namespace

split_heads split_capture(const arguments& a, const drop_arguments& choice) {
  cpu_context cpu{{.threads = a.threads}};
  const auto options = with_arguments({}, a);
  const auto source = capture_set::open(a.captures);
  const auto& manifest = source.manifest();
  const bool rotate_back = choice.keys == "rotation";
  require(!rotate_back || manifest.rope_stage == "post", "--keys rotation needs keys after the rotary embedding");
  split_heads found{manifest.model.name, manifest.context_length, {}};
  for_each_layer(cpu, source, a, options, "Splitting", [&](const auto& layer, const auto& rows, const auto& moments) {
    drop_split_options split{{}, choice.distance_cell, options.precision};
    if (rotate_back) split.rotation = sole_rope_of(source, layer.layer, "--keys rotation turns all keys alike");
    const auto models = fit_queries(cpu, moments, {options.covariances.at(0), options.position});
    auto splits = split_drop(cpu, models, rows, manifest.context_length, split);
    for (std::size_t h = 0; h < splits.size(); ++h)
      found.heads.push_back({.layer = layer.layer,
                             .q_head = layer.query_heads[h],
                             .k_head = layer.key_heads[layer.key_of_query[h]],
                             .rope = layer.rope,
                             .covariance = name_of(options.covariances.at(0)),
                             .rotated_back = split.rotation.has_value(),
                             .split = std::move(splits[h])});
  });
  return found;
}

void write_drops(output_folder& out, const split_heads& found) {
  write_drop_split(out, found.heads);
  write_drop_means(out, mean_drops(found.heads));
  draw(terms_by_head(found), out.figure("drop_parts"));
  draw(mean_terms(found), out.figure("drop_means"));
}

void print_drops(printer& out, const split_heads& found) {
  out.heading("What lets plasticity fall from the first to the last fifth of " + grouped(found.context_length) +
              " tokens (" + std::string(found.heads[0].covariance) + " query model; ± standard error over documents)");
  if (std::none_of(found.heads.begin(), found.heads.end(),
                   [](const head_drop& h) { return std::isfinite(h.split.drop.value); }))
    return out.line(
        "  None: no head has plasticity in both fifths (`qkgeom plasticity` says why). Narrower buckets "
        "(--bucket-size), more rows or more documents give it.");
  std::vector<std::string> columns{"heads"};
  columns.insert(columns.end(), std::begin(words), std::end(words));
  table t({""}, columns);
  for (const auto& g : mean_drops(found.heads)) {
    std::vector<std::string> cells{words_for_heads(g.name), std::to_string(g.heads)};
    for (const auto& m : g.mean) cells.push_back(signed_estimate_text(m));
    t.row(cells);
  }
  out.print(t);
}

}  // namespace qkgeom::examples
