// SPDX-License-Identifier: MIT
#include "qkgeom/report/head_tables.hpp"

#include <optional>

#include "qkgeom/plasticity/pair_terms.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom {

namespace {

/// Throws, beginning with `name`, unless every head has PCA and rotation.
void require_geometry(const char* name, const std::vector<head_report>& heads) {
  for (const auto& h : heads)
    require(!h.pca.r_q.empty(), name, ": layer ", h.layer, " head ", h.q_head,
            " has no PCA and rotation (analysis_options::geometry)");
}

/// Throws, beginning with `name`, unless every head has the headline profile and its summary.
void require_plasticity(const char* name, const std::vector<head_report>& heads) {
  for (const auto& h : heads)
    require(!h.profiles.empty() && !h.summaries.empty(), name, ": layer ", h.layer, " head ", h.q_head,
            " has no profile (analysis_options::plasticity)");
}

/// Hands out the heads of a report as rows.
auto each_head(const model_report& report) {
  return [&report](const auto& f) {
    for (const auto& h : report.heads) f(h);
  };
}

/// Columns of rows that belong to a head.
template <class Row>
table_columns<Row> columns_of_head_rows(const char* q_head = "q_head") {
  table_columns<Row> c;
  c.add("layer", "number of the layer", [](auto& r) { return r.head.layer; });
  c.add(q_head, "number of the query head", [](auto& r) { return r.head.q_head; });
  return c;
}

}  // namespace

table heads_table(const model_report& report) {
  require_geometry("heads.csv", report.heads);
  require_plasticity("heads.csv", report.heads);
  table_columns<head_report> c;
  c.add("layer", "number of the layer", &head_report::layer);
  c.add("q_head", "number of the query head", &head_report::q_head);
  c.add("k_head", "number of the key head that it reads", &head_report::k_head);
  c.add("rope", "whether the layer has rotary embedding", &head_report::rope);
  c.add("window", "tokens that the layer sees; empty: all", &head_report::window);
  c.add("head_class", "class by the correlations of component 0, against `--low` and `--high`",
        [](auto& h) { return name_of(h.pca.head_class); });
  c.add_all(pca_columns()).add_all(rotation_columns());
  c.add("covariance", "query model behind the columns ap_*", [](auto& h) { return h.profiles[0].covariance; });
  c.add("pairs", "pairs of keys, summed over query buckets", [](auto& h) { return h.summaries[0].pairs; });
  c.add_all(plasticity_columns());
  return std::move(c).with_rows(each_head(report));
}

table qk_table(const model_report& report) {
  struct component {
    const head_report& head;
    std::size_t j;
  };
  auto c = columns_of_head_rows<component>("head");
  c.add("pc", "component, from 0", [](auto& r) { return r.j; });
  c.add("r_q", "correlation of queries with position", [](auto& r) { return r.head.pca.r_q[r.j]; });
  c.add("r_k", "correlation of keys with position", [](auto& r) { return r.head.pca.r_k[r.j]; });
  c.add("explained_variance", "share of the pooled variance",
        [](auto& r) { return r.head.pca.explained_variance[r.j]; });
  return std::move(c).with_rows([&report](const auto& f) {
    for (const auto& h : report.heads)
      for (std::size_t j = 0; j < h.pca.r_q.size(); ++j) f(component{h, j});
  });
}

table rotated_table(const model_report& report) {
  require_geometry("rotated.csv", report.heads);
  table_columns<head_report> c;
  c.add("layer", "number of the layer", &head_report::layer);
  c.add("head", "number of the query head", &head_report::q_head);
  c.add("k_head", "number of the key head that it reads", &head_report::k_head);
  return std::move(c.add_all(rotation_columns())).with_rows(each_head(report));
}

table profile_table(const model_report& report) {
  struct head_bucket {
    const head_report& head;
    std::size_t b;
    const profile_bucket& bucket;
    std::string_view model;
  };
  auto c = columns_of_head_rows<head_bucket>();
  c.add("q_bucket", "query bucket, from 0", [](auto& r) { return r.b; });
  c.add("start", "its first token", [](auto& r) { return r.bucket.start; });
  c.add("end", "one past its last token", [](auto& r) { return r.bucket.end; });
  c.add("plasticity", "mean over its pairs", [](auto& r) { return r.bucket.plasticity; });
  c.add("standard_error", "its standard error", [](auto& r) { return r.bucket.standard_error; });
  c.add("pairs", "pairs of keys admitted", [](auto& r) { return r.bucket.pairs; });
  c.add("queries", "queries in the bucket", [](auto& r) { return r.bucket.queries; });
  c.add("covariance", "query model, or `empirical` (plug-in) and `empirical_unbiased` (n/(n-1) times it)",
        [](auto& r) { return r.model; });
  c.add("sampling_error", "standard error that drawing pairs adds; 0 where all were used",
        [](auto& r) { return r.bucket.sampling_error; });
  return std::move(c).with_rows([&report](const auto& f) {
    const auto rows = [&](const head_report& h, const plasticity_profile_result& p, std::string_view model) {
      for (std::size_t b = 0; b < p.buckets.size(); ++b) f(head_bucket{h, b, p.buckets[b], model});
    };
    for (const auto& h : report.heads) {
      for (const auto& p : h.profiles) rows(h, p, p.covariance);
      if (!h.empirical) continue;
      rows(h, *h.empirical, "empirical");
      rows(h, unbiased(*h.empirical), "empirical_unbiased");
    }
  });
}

table heatmap_table(const model_report& report) {
  struct head_cell {
    const head_report& head;
    const plasticity_heatmap& map;
    index_t i, j;
  };
  auto c = columns_of_head_rows<head_cell>();
  c.add("key_distance", "tokens between the keys: the cell's lower edge", [](auto& r) { return r.i * r.map.cell; });
  c.add("query_distance", "tokens from the keys' middle to the query: the cell's lower edge",
        [](auto& r) { return r.j * r.map.cell; });
  c.add("plasticity", "mean over the cell's pairs", [](auto& r) { return r.map.mean(r.i, r.j); });
  c.add("pairs", "how many pairs; drawn pairs count for those they stand for",
        [](auto& r) { return r.map.weight[r.i * r.map.width + r.j]; });
  return std::move(c).with_rows([&report](const auto& f) {
    for (const auto& h : report.heads) {
      if (h.profiles.empty()) continue;
      const auto& map = h.profiles[0].heatmap;
      for (index_t i = 0; i < map.width; ++i)
        for (index_t j = 0; j < map.width; ++j)
          if (map.weight[i * map.width + j] > 0) f(head_cell{h, map, i, j});
    }
  });
}

table bins_table(const model_report& report) {
  require_plasticity("bins.csv", report.heads);
  struct head_bin {
    const head_report& head;
    const char* kind;
    const bin_mean& bin;
  };
  auto c = columns_of_head_rows<head_bin>();
  c.add("kind", "`quintile`, `decile`, `length` (0 to L/16, then doubling)", [](auto& r) { return r.kind; });
  c.add("start", "first token of the bin, may be a fraction", [](auto& r) { return r.bin.start; });
  c.add("end", "its end, may be a fraction", [](auto& r) { return r.bin.end; });
  c.add("plasticity", "mean over the query buckets whose middle lies in the bin, by their queries",
        [](auto& r) { return r.bin.plasticity.value; });
  c.add("standard_error", "its standard error", [](auto& r) { return r.bin.plasticity.error; });
  return std::move(c).with_rows([&report](const auto& f) {
    const std::pair<const char*, std::vector<double>> kinds[] = {{"quintile", equal_bins(report.context_length, 5)},
                                                                 {"decile", equal_bins(report.context_length, 10)},
                                                                 {"length", length_bins(report.context_length)}};
    for (const auto& h : report.heads)
      for (const auto& [kind, edges] : kinds)
        for (const auto& bin : bin_means(h.profiles[0], edges)) f(head_bin{h, kind, bin});
  });
}

table model_report_table(const model_report& report) {
  require_plasticity("model_report.csv", report.heads);
  struct model_means {
    std::string model;
    group_summary all;
    std::array<double, 10> decile;
  };
  table_columns<model_means> c;
  c.add("model", "its name", &model_means::model);
  c.add("ap_overall", "mean over heads of ap_overall", [](auto& m) { return m.all.overall.value; });
  c.add("ap_first_20pct", "mean over heads of ap_first_20pct", [](auto& m) { return m.all.first20.value; });
  c.add("ap_last_20pct", "mean over heads of ap_last_20pct", [](auto& m) { return m.all.last20.value; });
  c.add("ap_drop", "mean over heads of ap_drop", [](auto& m) { return m.all.drop.value; });
  for (std::size_t i = 0; i < 10; ++i)
    c.add("ap_decile_" + std::to_string(i + 1), "mean over heads in this tenth of the context",
          [i](auto& m) { return m.decile[i]; });
  return std::move(c).with_rows([&report](const auto& f) {
    std::array<double, 10> mean{}, count{};
    for (const auto& h : report.heads) {
      const auto bins = bin_means(h.profiles[0], equal_bins(report.context_length, 10));
      for (std::size_t i = 0; i < 10; ++i)
        if (!std::isnan(bins[i].plasticity.value)) {
          mean[i] += bins[i].plasticity.value;
          ++count[i];
        }
    }
    for (std::size_t i = 0; i < 10; ++i) mean[i] = count[i] > 0 ? mean[i] / count[i] : std::nan("");
    f(model_means{report.model, summarize_heads(report, report.model, every_head(report.heads)), mean});
  });
}

void write_head_tables(const std::filesystem::path& folder, const model_report& report, bool heatmap) {
  write_csv(folder / "heads.csv", heads_table(report));
  write_csv(folder / "qk.csv", qk_table(report));
  write_csv(folder / "rotated.csv", rotated_table(report));
  write_csv(folder / "profile.csv", profile_table(report));
  write_csv(folder / "bins.csv", bins_table(report));
  write_csv(folder / "model_report.csv", model_report_table(report));
  if (heatmap) write_csv(folder / "heatmap.csv", heatmap_table(report));
}

namespace {

std::vector<std::string> component_names() {
  std::vector<std::string> names;
  add_estimate_names(names, "plasticity");
  for (index_t p = 0; p < pair_terms; ++p) add_estimate_names(names, std::string(name_of(static_cast<pair_term>(p))));
  return names;
}

void write_bucket_components(csv_writer& csv, const head_report& h, const plasticity_profile_result& profile) {
  std::vector<plasticity_profile_result> terms;
  for (index_t p = 0; p < pair_terms; ++p) terms.push_back(term_profile(profile, static_cast<pair_term>(p)));
  for (std::size_t b = 0; b < profile.buckets.size(); ++b) {
    const auto& bucket = profile.buckets[b];
    csv.add(h.layer).add(h.q_head).add(profile.covariance).add("bucket").add(b).add(bucket.start).add(bucket.end);
    csv.add(std::nullopt).add(std::nullopt).add(bucket.pairs).add(bucket.plasticity).add(bucket.standard_error);
    for (const auto& p : terms) csv.add(p.buckets[b].plasticity).add(p.buckets[b].standard_error);
    csv.end_row();
  }
}

void write_cell_components(csv_writer& csv, const head_report& h, const plasticity_profile_result& profile) {
  const auto& map = profile.heatmap;
  if (map.terms.weight.empty()) return;
  for (index_t i = 0; i < map.width; ++i)
    for (index_t j = 0; j < map.width; ++j) {
      const index_t cell = i * map.width + j;
      if (!(map.terms.weight[cell] > 0)) continue;
      csv.add(h.layer).add(h.q_head).add(profile.covariance).add("cell");
      csv.add(std::nullopt).add(std::nullopt).add(std::nullopt).add(i * map.cell).add(j * map.cell);
      csv.add(map.terms.weight[cell]);
      add_estimate(csv, cell_mean(map, i, j));
      for (index_t p = 0; p < pair_terms; ++p) add_estimate(csv, cell_mean(map, i, j, static_cast<pair_term>(p)));
      csv.end_row();
    }
}

}  // namespace

void write_components_csv(const std::filesystem::path& path, const model_report& report) {
  std::vector<std::string> names{"layer", "q_head", "covariance",   "level",          "q_bucket",
                                 "start", "end",    "key_distance", "query_distance", "pairs"};
  for (auto& name : component_names()) names.push_back(std::move(name));
  csv_writer csv(path, names);
  bool any = report.heads.empty();
  for (const auto& h : report.heads)
    for (const auto& p : h.profiles) {
      if (p.buckets.empty() || p.buckets[0].term_sum.size() != p.documents.size() * pair_terms) continue;
      any = true;
      write_bucket_components(csv, h, p);
      write_cell_components(csv, h, p);
    }
  require(any, "cannot write ", path.string(), ": no profile has terms");
  csv.commit();
}

void write_later_keys_csv(const std::filesystem::path& path, const model_report& report) {
  csv_writer csv(path, {"layer", "q_head", "rope", "covariance", "bias_strength", "later_wins", "later_wins_error",
                        "favoured_wins", "agrees", "agreeing_share", "agreeing_share_error"});
  for (const auto& h : report.heads) {
    const auto s = later_keys(h, report.context_length);
    csv.row(h.layer, h.q_head, h.rope, h.profiles[0].covariance, s.bias_strength, s.later_wins.value,
            s.later_wins.error, s.favoured_wins.value, s.agrees, s.agreeing_share.value, s.agreeing_share.error);
  }
  csv.commit();
}

void write_bucket_table_csv(const std::filesystem::path& path, const model_report& report,
                            const std::vector<plasticity_bucket_table>& tables) {
  require(tables.size() == report.heads.size(), "cannot write ", path.string(), ": ", tables.size(), " tables for ",
          report.heads.size(), " heads");
  csv_writer csv(path, {"layer", "q_head", "k_head", "q_bucket", "k_bucket", "q_start", "q_end", "k_start", "k_end",
                        "plasticity", "standard_error", "sampling_error", "pairs", "covariance"});
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const auto& h = report.heads[i];
    const auto& table = tables[i];
    for (index_t b = 0; b < table.query_buckets.count(); ++b)
      for (index_t k = 0; k < table.key_buckets.count(); ++k)
        if (const auto& cell = table.cell(b, k); cell.pairs > 0)
          csv.row(h.layer, h.q_head, h.k_head, b, k, cell.start, cell.end, table.key_buckets.start(k),
                  table.key_buckets.end(k), cell.plasticity, cell.standard_error, cell.sampling_error, cell.pairs,
                  table.covariance);
  }
  csv.commit();
}

model_heatmap heatmap_of(const model_report& report, std::string group, const std::vector<std::size_t>& heads,
                         const model_heatmap_options& options) {
  require(options.least_pairs > 0, "least_pairs must be above 0, not ", options.least_pairs);
  model_heatmap map;
  map.group = std::move(group);
  std::vector<const plasticity_heatmap*> each;
  for (const std::size_t h : heads) {
    if (report.heads[h].profiles.empty() || report.heads[h].profiles[0].heatmap.width == 0) continue;
    each.push_back(&report.heads[h].profiles[0].heatmap);
    require(each[0]->cell == each.back()->cell, "model heatmap: heads have cells of ", each[0]->cell, " and of ",
            each.back()->cell, " tokens");
    map.cell = each[0]->cell;
    map.width = std::max(map.width, each.back()->width);
  }
  for (index_t i = 0; i < map.width; ++i)
    for (index_t j = 0; j < map.width; ++j) {
      std::vector<double> means;
      double pairs = 0;
      for (const auto* m : each) {
        if (i >= m->width || j >= m->width) continue;
        const double weight = m->weight[i * m->width + j];
        if (!(weight >= options.least_pairs)) continue;
        means.push_back(m->mean(i, j));
        pairs += weight;
      }
      map.plasticity.push_back(statistic_of(head_statistic::mean, means));
      map.head_error.push_back(head_error_of(head_statistic::mean, means));
      map.heads.push_back(static_cast<index_t>(means.size()));
      map.pairs.push_back(pairs);
    }
  return map;
}

std::vector<model_heatmap> model_heatmaps(const model_report& report, const model_heatmap_options& options) {
  std::vector<model_heatmap> maps;
  for (const auto& [name, heads] : head_groups(report.heads)) maps.push_back(heatmap_of(report, name, heads, options));
  return maps;
}

void write_model_heatmap_csv(const std::filesystem::path& path, const std::vector<model_heatmap>& maps) {
  csv_writer csv(path, {"group", "key_distance", "query_distance", "plasticity", "head_error", "heads", "pairs"});
  for (const auto& m : maps)
    for (index_t i = 0; i < m.width; ++i)
      for (index_t j = 0; j < m.width; ++j) {
        const index_t at = i * m.width + j;
        if (m.heads[at] > 0)
          csv.row(m.group, i * m.cell, j * m.cell, m.plasticity[at], m.head_error[at], m.heads[at], m.pairs[at]);
      }
  csv.commit();
}

void write_decay_csv(const std::filesystem::path& path, const std::vector<head_decay>& heads) {
  std::vector<std::string> names{"layer",     "q_head",   "k_head", "covariance",
                                 "alpha_pos", "beta_pos", "pairs",  "all_pairs"};
  for (const char* spread : {"gamma", "abs_gamma", "z_0", "t_0", "variance_relative_slope"})
    for (const char* share : {"_p10", "_median", "_p90"}) names.push_back(std::string(spread) + share);
  for (const char* mean : {"variance_slope", "pi_0", "ap_infinity", "past", "broken"}) add_estimate_names(names, mean);
  csv_writer csv(path, names);
  for (const auto& h : heads)
    for (const auto* r : {&h.decay.full, &h.decay.pooled}) {
      csv.add(h.layer).add(h.q_head).add(h.k_head).add(r->covariance);
      csv.add(r->alpha_pos).add(r->beta_pos).add(r->pairs).add(r->all_pairs);
      for (const auto* s : {&r->gamma, &r->abs_gamma, &r->z_0, &r->t_0, &r->variance_slope})
        csv.add(s->p10).add(s->median).add(s->p90);
      for (const auto* m : {&r->variance_slope_mean, &r->pi_0, &r->ap_infinity, &r->past, &r->broken})
        add_estimate(csv, *m);
      csv.end_row();
    }
  csv.commit();
}

void write_decay_profile_csv(const std::filesystem::path& path, const std::vector<head_decay>& heads) {
  std::vector<std::string> names{"layer", "q_head", "k_head", "covariance", "start", "end", "tau", "pairs"};
  for (const char* mean : {"plasticity", "bound", "promised", "past", "broken"}) add_estimate_names(names, mean);
  csv_writer csv(path, names);
  for (const auto& h : heads)
    for (const auto* r : {&h.decay.full, &h.decay.pooled})
      for (const auto& b : r->buckets) {
        csv.add(h.layer).add(h.q_head).add(h.k_head).add(r->covariance);
        csv.add(b.start).add(b.end).add(b.tau).add(b.pairs);
        for (const auto* m : {&b.plasticity, &b.bound, &b.promised, &b.past, &b.broken}) add_estimate(csv, *m);
        csv.end_row();
      }
  csv.commit();
}

void write_complement_csv(const std::filesystem::path& path, const std::vector<head_complement>& heads) {
  std::vector<std::string> names{"layer", "q_head", "k_head", "plane", "variance_share"};
  for (const std::string side : {"q_", "k_"})
    for (const char* name : {"active", "frequency", "resultant", "level", "draws", "variance_share"})
      names.push_back(side + name);
  csv_writer csv(path, names);
  for (const auto& h : heads)
    for (std::size_t p = 0; p < h.complement.planes.size(); ++p) {
      const auto& plane = h.complement.planes[p];
      csv.add(h.layer).add(h.q_head).add(h.k_head).add(p).add(plane.variance_share);
      for (const auto* t : {&plane.q, &plane.k})
        csv.add(t->active).add(t->frequency).add(t->resultant).add(t->level).add(t->draws).add(t->variance_share);
      csv.end_row();
    }
  csv.commit();
}

}  // namespace qkgeom
