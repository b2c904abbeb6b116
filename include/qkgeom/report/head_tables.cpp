// SPDX-License-Identifier: MIT
#include "qkgeom/report/head_tables.hpp"

#include <cmath>
#include <optional>

#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom {

namespace {

/// Throws, beginning with `name`, unless every head has PCA and rotation.
void require_geometry(const char* name, const std::vector<head_report>& heads) {
  for (const auto& h : heads)
    require(!h.pca.r_q.empty(), name, ": layer ", h.layer, " head ", h.q_head,
            " has no PCA and rotation (analysis_options::geometry)");
}

/// Throws, beginning with `name`, unless every head has the headline profile.
void require_plasticity(const char* name, const std::vector<head_report>& heads) {
  for (const auto& h : heads)
    require(!h.profiles.empty(), name, ": layer ", h.layer, " head ", h.q_head,
            " has no profile (analysis_options::plasticity)");
}

}  // namespace

table heads_table(const model_report& report) {
  require_geometry("heads.csv", report.heads);
  require_plasticity("heads.csv", report.heads);
  auto c = head_columns<4, head_report>(std::identity());
  c.add("window", "tokens that the layer sees; empty: all", &head_report::window);
  c.add("head_class",
        "`position_dominated`, `q_positional`, `k_positional`, `content_focused` or `mixed`, on component 0 by `--low` "
        "and "
        "`--high`",
        [](auto& h) { return name_of(h.pca.head_class); });
  c.add_all(pca_columns()).add_all(rotation_columns());
  c.add("covariance", "query model behind the columns `ap_*`: the first of `--covariance`",
        [](auto& h) { return h.profiles[0].covariance; });
  c.add("pairs", "number of pairs of keys, summed over query buckets", [](auto& h) { return h.summaries[0].pairs; });
  c.add_all(plasticity_columns());
  return std::move(c).with_rows(report.heads);
}

table qk_table(const model_report& report) {
  struct component {
    const head_report* head;
    std::size_t j;
  };
  auto c = head_columns<2, component>(&component::head);
  c.add("pc", "principal component, from 0, by falling variance", [](auto& r) { return r.j; });
  c.add("r_q", "correlation of queries with position; 0 if either does not vary",
        [](auto& r) { return r.head->pca.r_q[r.j]; });
  c.add("r_k", "correlation of keys with position; 0 if either does not vary",
        [](auto& r) { return r.head->pca.r_k[r.j]; });
  c.add("explained_variance", "share of the pooled variance",
        [](auto& r) { return r.head->pca.explained_variance[r.j]; });
  return std::move(c).with_rows([&report](const auto& f) {
    for (const auto& h : report.heads)
      for (std::size_t j = 0; j < h.pca.r_q.size(); ++j) f(component{&h, j});
  });
}

table rotated_table(const model_report& report) {
  require_geometry("rotated.csv", report.heads);
  auto c = head_columns<3, head_report>(std::identity());
  return std::move(c.add_all(rotation_columns())).with_rows(report.heads);
}

table profile_table(const model_report& report) {
  struct head_bucket {
    const head_report* head;
    std::size_t b;
    const profile_bucket* bucket;
    std::string_view model;
  };
  auto c = head_columns<2, head_bucket>(&head_bucket::head);
  c.add("q_bucket", "query bucket, from 0", [](auto& r) { return r.b; });
  add_stretch(c, "query bucket", &head_bucket::bucket);
  c.of(&head_bucket::bucket)
      .add("plasticity", "mean over the bucket's pairs", &profile_bucket::plasticity)
      .add("standard_error", "standard error of plasticity over documents", &profile_bucket::standard_error)
      .add("pairs", "number of pairs of keys admitted", &profile_bucket::pairs)
      .add("queries", "number of queries in the bucket", &profile_bucket::queries);
  c.add("covariance",
        "query model `diagonal`, `full`, `joint` or `linear_drift`, or the observed queries: `empirical` (plug-in), "
        "`empirical_unbiased` (n/(n-1) times it)",
        &head_bucket::model);
  c.of(&head_bucket::bucket)
      .add("sampling_error",
           "standard error that drawing pairs (`--pairs sampled:N`) adds, against the mean over all pairs; 0 where all "
           "were used",
           &profile_bucket::sampling_error);
  return std::move(c).with_rows([&report](const auto& f) {
    const auto rows = [&](const head_report& h, const plasticity_profile_result& p, std::string_view model) {
      for (std::size_t b = 0; b < p.buckets.size(); ++b) f(head_bucket{&h, b, &p.buckets[b], model});
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
    const head_report* head;
    const plasticity_heatmap& map;
    index_t i, j;
  };
  auto c = head_columns<2, head_cell>(&head_cell::head);
  c.add("key_distance", "distance between the two keys, tokens: the cell's lower edge",
        [](auto& r) { return r.i * r.map.cell; });
  c.add("query_distance", "distance from the keys' middle to the query, tokens: the cell's lower edge",
        [](auto& r) { return r.j * r.map.cell; });
  c.add("plasticity", "mean over the cell's pairs", [](auto& r) { return r.map.mean(r.i, r.j); });
  c.add("pairs", "number of pairs; a drawn pair counts for all that it stands for",
        [](auto& r) { return r.map.weight[r.i * r.map.width + r.j]; });
  return std::move(c).with_rows([&report](const auto& f) {
    for (const auto& h : report.heads) {
      if (h.profiles.empty()) continue;
      const auto& map = h.profiles[0].heatmap;
      for (index_t i = 0; i < map.width; ++i)
        for (index_t j = 0; j < map.width; ++j)
          if (map.weight[i * map.width + j] > 0) f(head_cell{&h, map, i, j});
    }
  });
}

table bins_table(const model_report& report) {
  require_plasticity("bins.csv", report.heads);
  struct head_bin {
    const head_report* head;
    const char* kind;
    const bin_mean& bin;
  };
  auto c = head_columns<2, head_bin>(&head_bin::head);
  c.add("kind", "`quintile`, `decile`, `length` (0 to L/16, then doubling)", [](auto& r) { return r.kind; });
  c.add("start", "beginning of the bin, tokens, may be a fraction", [](auto& r) { return r.bin.start; });
  c.add("end", "end of the bin, tokens, may be a fraction", [](auto& r) { return r.bin.end; });
  c.add("plasticity",
        "mean over the query buckets whose middle lies in the bin, by their queries; empty where there is none",
        [](auto& r) { return r.bin.plasticity.value; });
  c.add("standard_error", "standard error of plasticity over documents",
        [](auto& r) { return r.bin.plasticity.error; });
  return std::move(c).with_rows([&report](const auto& f) {
    const std::pair<const char*, std::vector<double>> kinds[] = {{"quintile", equal_bins(report.context_length, 5)},
                                                                 {"decile", equal_bins(report.context_length, 10)},
                                                                 {"length", length_bins(report.context_length)}};
    for (const auto& h : report.heads)
      for (const auto& [kind, edges] : kinds)
        for (const auto& bin : bin_means(h.profiles[0], edges)) f(head_bin{&h, kind, bin});
  });
}

table model_report_table(const model_report& report) {
  require_plasticity("model_report.csv", report.heads);
  struct model_means {
    std::string model;
    profile_summary all;
    std::array<double, 10> decile;
  };
  table_columns<model_means> c;
  c.add("model", "name of the model", &model_means::model);
  c.add("ap_overall", "mean over heads of ap_overall", [](auto& m) { return m.all.overall.value; });
  c.add("ap_first_20pct", "mean over heads of ap_first_20pct", [](auto& m) { return m.all.first20.value; });
  c.add("ap_last_20pct", "mean over heads of ap_last_20pct", [](auto& m) { return m.all.last20.value; });
  c.add("ap_drop", "mean over heads of ap_drop", [](auto& m) { return m.all.drop.value; });
  for (std::size_t i = 0; i < 10; ++i)
    c.add("ap_decile_" + std::to_string(i + 1),
          "mean over heads in a tenth of the context, numbered from its beginning",
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
    f(model_means{report.model, summarize_heads(report, every_head(report.heads)), mean});
  });
}

void write_head_tables(const std::filesystem::path& folder, const model_report& report, bool heatmap) {
  write_csv(folder, "heads.csv", heads_table(report));
  write_csv(folder, "qk.csv", qk_table(report));
  write_csv(folder, "rotated.csv", rotated_table(report));
  write_csv(folder, "profile.csv", profile_table(report));
  write_csv(folder, "bins.csv", bins_table(report));
  write_csv(folder, "model_report.csv", model_report_table(report));
  if (heatmap) write_csv(folder, "heatmap.csv", heatmap_table(report));
}

namespace {

/// A row of components.csv, for a query bucket or a cell of the heatmap.
struct term_row {
  const head_report* head;
  std::string_view covariance;
  const char* level;
  std::optional<std::size_t> bucket{};
  std::optional<index_t> start{}, end{}, key_distance{}, query_distance{};
  table_field pairs{};
  std::array<estimate, 1 + pair_terms> means{};  ///< plasticity, then the terms
};

template <class Each>
void bucket_terms(const head_report& h, const plasticity_profile_result& profile, const Each& f) {
  std::vector<plasticity_profile_result> terms;
  for (index_t p = 0; p < pair_terms; ++p) terms.push_back(term_profile(profile, static_cast<pair_term>(p)));
  for (std::size_t b = 0; b < profile.buckets.size(); ++b) {
    const auto& bucket = profile.buckets[b];
    term_row row{&h, profile.covariance, "bucket", b, bucket.start, bucket.end};
    row.pairs = field_of(bucket.pairs);
    row.means[0] = {bucket.plasticity, bucket.standard_error};
    for (std::size_t p = 0; p < pair_terms; ++p)
      row.means[1 + p] = {terms[p].buckets[b].plasticity, terms[p].buckets[b].standard_error};
    f(row);
  }
}

template <class Each>
void cell_terms(const head_report& h, const plasticity_profile_result& profile, const Each& f) {
  const auto& map = profile.heatmap;
  if (map.terms.weight.empty()) return;
  for (index_t i = 0; i < map.width; ++i)
    for (index_t j = 0; j < map.width; ++j) {
      const double weight = map.terms.weight[i * map.width + j];
      if (!(weight > 0)) continue;
      term_row row{&h, profile.covariance, "cell"};
      row.key_distance = i * map.cell;
      row.query_distance = j * map.cell;
      row.pairs = weight;
      row.means[0] = cell_mean(map, i, j);
      for (std::size_t p = 0; p < pair_terms; ++p) row.means[1 + p] = cell_mean(map, i, j, static_cast<pair_term>(p));
      f(row);
    }
}

}  // namespace

table components_table(const model_report& report) {
  constexpr const char* meanings[] = {
      "probability that the later key of a pair scores higher",
      "abs(delta_1 (alpha + beta tau)), drift term of the mean score difference m",
      "abs(delta'mu_b), content term of m",
      "delta_1^2 times the variance of eps (sigma_pos^2, under `joint` the bucket's own), drift term of the variance v",
      "delta'Sigma_b delta, content term of v",
      "contribution to v of the covariance of the first coordinate with the others: rounding except under `joint`",
      "abs(m) / sqrt(v); empty where v is 0 for a pair"};
  static_assert(std::size(meanings) == pair_terms);
  auto c = head_columns<2, term_row>(&term_row::head);
  c.add("covariance", "query model", &term_row::covariance);
  c.add("level", "`bucket`: a row per query bucket; `cell`: a row per heatmap cell", &term_row::level);
  c.add("q_bucket", "query bucket, from 0; empty for cells", &term_row::bucket);
  c.add("start", "first token of the query bucket; empty for cells", &term_row::start);
  c.add("end", "end of the query bucket, excluded, tokens; empty for cells", &term_row::end);
  c.add("key_distance", "distance between the two keys, as in heatmap.csv; empty for buckets", &term_row::key_distance);
  c.add("query_distance", "distance from the keys' middle to the query, as in heatmap.csv; empty for buckets",
        &term_row::query_distance);
  c.add("pairs", "number of pairs of keys", &term_row::pairs);
  c.add("plasticity", "mean over the pairs", [](auto& r) { return r.means[0]; });
  for (std::size_t p = 0; p < pair_terms; ++p)
    c.add(std::string(name_of(static_cast<pair_term>(p))), meanings[p], [p](auto& r) {
      const estimate& e = r.means[1 + p];
      return std::isinf(e.value) ? estimate{std::nan(""), std::nan("")} : e;
    });
  const auto has_terms = [](const plasticity_profile_result& p) {
    return !p.buckets.empty() && p.buckets[0].term_sum.size() == p.documents.size() * pair_terms;
  };
  require(report.heads.empty() || std::any_of(report.heads.begin(), report.heads.end(),
                                              [&](const head_report& h) {
                                                return std::any_of(h.profiles.begin(), h.profiles.end(), has_terms);
                                              }),
          "components.csv: no profile has terms");
  return std::move(c).with_rows([&report, has_terms](const auto& f) {
    for (const auto& h : report.heads)
      for (const auto& p : h.profiles)
        if (has_terms(p)) {
          bucket_terms(h, p, f);
          cell_terms(h, p, f);
        }
  });
}

table later_keys_table(const model_report& report) {
  require_plasticity("later_keys.csv", report.heads);
  struct row {
    const head_report* head;
    later_key_summary s;
  };
  auto c = head_columns<2, row>(&row::head);
  c.of(&row::head).add("rope", "1 in layers with rotary embedding, else 0", &head_report::rope);
  c.add("covariance", "query model", [](auto& r) { return r.head->profiles[0].covariance; });
  c.add("bias_strength", "mu_q_a alpha_k, score per token, as in heads.csv", [](auto& r) { return r.s.bias_strength; });
  c.add("later_wins", "probability that the later key of a pair scores higher, over the context",
        [](auto& r) { return r.s.later_wins; });
  c.add("favoured_wins", "probability that the key that the bias favours scores higher; empty without a bias",
        [](auto& r) { return r.s.favoured_wins.value; });
  c.add("agrees", "1 if favoured_wins is above 1/2", [](auto& r) { return r.s.agrees; });
  c.add("agreeing_share", "share of the query buckets, by queries, where the key that the bias favours wins more often",
        [](auto& r) { return r.s.agreeing_share; });
  return std::move(c).with_rows([&report](const auto& f) {
    for (const auto& h : report.heads) f(row{&h, later_keys(h, report.context_length)});
  });
}

table bucket_table_table(const model_report& report, const std::vector<plasticity_bucket_table>& tables) {
  require(tables.size() == report.heads.size(), "bucket_table.csv: ", tables.size(), " tables for ",
          report.heads.size(), " heads");
  struct row {
    const head_report* head;
    const plasticity_bucket_table& of;
    index_t b, k;
    const profile_bucket* cell;
  };
  auto c = head_columns<3, row>(&row::head);
  c.add("q_bucket", "query bucket, from 0", &row::b);
  c.add("k_bucket", "key bucket, from 0", &row::k);
  c.add("q_start", "first token of the query bucket", [](auto& r) { return r.cell->start; });
  c.add("q_end", "end of the query bucket, excluded, tokens", [](auto& r) { return r.cell->end; });
  c.add("k_start", "first token of the key bucket", [](auto& r) { return r.of.key_buckets.start(r.k); });
  c.add("k_end", "end of the key bucket, excluded, tokens", [](auto& r) { return r.of.key_buckets.end(r.k); });
  c.of(&row::cell)
      .add("plasticity", "mean over the pairs", &profile_bucket::plasticity)
      .add("standard_error", "standard error of plasticity over documents", &profile_bucket::standard_error)
      .add("sampling_error", "standard error that drawing pairs adds", &profile_bucket::sampling_error)
      .add("pairs", "number of pairs of keys", &profile_bucket::pairs);
  c.add("covariance", "query model", [](auto& r) { return r.of.covariance; });
  return std::move(c).with_rows([&report, &tables](const auto& f) {
    for (std::size_t i = 0; i < tables.size(); ++i)
      for (index_t b = 0; b < tables[i].query_buckets.count(); ++b)
        for (index_t k = 0; k < tables[i].key_buckets.count(); ++k)
          if (const auto& cell = tables[i].cell(b, k); cell.pairs > 0) f(row{&report.heads[i], tables[i], b, k, &cell});
  });
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

table model_heatmap_table(const std::vector<model_heatmap>& maps) {
  struct row {
    const model_heatmap& map;
    index_t i, j, at;
  };
  table_columns<row> c;
  c.add("group", group_meaning, [](auto& r) { return r.map.group; });
  c.add("key_distance", "distance between the two keys, as in heatmap.csv", [](auto& r) { return r.i * r.map.cell; });
  c.add("query_distance", "distance from the keys' middle to the query, as in heatmap.csv",
        [](auto& r) { return r.j * r.map.cell; });
  c.add("plasticity", "mean of the heads' means in the cell", [](auto& r) { return r.map.plasticity[r.at]; });
  c.add("head_error", "standard error of plasticity as heads drawn from many",
        [](auto& r) { return r.map.head_error[r.at]; });
  c.add("heads", "number of heads with 30 pairs in the cell", [](auto& r) { return r.map.heads[r.at]; });
  c.add("pairs", "number of pairs of these heads", [](auto& r) { return r.map.pairs[r.at]; });
  return std::move(c).with_rows([&maps](const auto& f) {
    for (const auto& m : maps)
      for (index_t i = 0; i < m.width; ++i)
        for (index_t j = 0; j < m.width; ++j)
          if (const index_t at = i * m.width + j; m.heads[at] > 0) f(row{m, i, j, at});
  });
}

namespace {

/// Returns the columns that name the head and the query model in tables of the decay theorem.
template <class Row>
table_columns<Row> decay_columns() {
  auto c = head_columns<3, Row>(&Row::head);
  c.add("covariance", "`full` (each bucket's own) or `pooled` (one for all, as the theorem assumes)",
        [](auto& r) { return r.result.covariance; });
  return c;
}

}  // namespace

table decay_table(const std::vector<head_decay>& heads) {
  struct row {
    const head_decay* head;
    const decay_result& result;
  };
  auto c = decay_columns<row>();
  c.add("alpha_pos", "constant of the drift in the query model", [](auto& r) { return r.result.alpha_pos; });
  c.add("beta_pos", "slope of the drift in the query model, per token; 0: the theorem says nothing",
        [](auto& r) { return r.result.beta_pos; });
  c.add("pairs", "number of pairs of keys drawn", [](auto& r) { return r.result.pairs; });
  c.add("all_pairs", "number of pairs that there are", [](auto& r) { return r.result.all_pairs; });
  const auto add_spread = [&](const std::string& name, const char* meaning, decay_spread decay_result::*s) {
    c.add(name + "_p10", meaning, [s](auto& r) { return (r.result.*s).p10; });
    c.add(name + "_median", meaning, [s](auto& r) { return (r.result.*s).median; });
    c.add(name + "_p90", meaning, [s](auto& r) { return (r.result.*s).p90; });
  };
  add_spread("gamma", "quantile over pairs of delta_1 beta_pos / sqrt v where it is not 0, per token",
             &decay_result::gamma);
  add_spread("abs_gamma", "quantile of abs(gamma), per token", &decay_result::abs_gamma);
  add_spread("z_0", "quantile of z at t = 0", &decay_result::z_0);
  add_spread("t_0", "quantile of T_0 = 2 abs(z_0) / abs(gamma), tokens", &decay_result::t_0);
  add_spread("variance_relative_slope", "quantile of the slope of v against t over its mean, per token",
             &decay_result::variance_slope);
  c.add("variance_slope", "mean over pairs of the slope of v against t",
        [](auto& r) { return r.result.variance_slope_mean; });
  c.add("pi_0", "share of pairs with delta_1 = 0", [](auto& r) { return r.result.pi_0; });
  c.add("ap_infinity", "pi_0 times the plasticity of these pairs (4.15, A.9)",
        [](auto& r) { return r.result.ap_infinity; });
  c.add("past", "share of pairs and buckets with t of T_0 or more", [](auto& r) { return r.result.past; });
  c.add("broken", "share of these pairs and buckets whose plasticity exceeds exp(-gamma^2 t^2 / 8)",
        [](auto& r) { return r.result.broken; });
  return std::move(c).with_rows([&heads](const auto& f) {
    for (const auto& h : heads)
      for (const auto* r : {&h.decay.full, &h.decay.pooled}) f(row{&h, *r});
  });
}

table decay_profile_table(const std::vector<head_decay>& heads) {
  struct row {
    const head_decay* head;
    const decay_result& result;
    const decay_bucket* bucket;
  };
  auto c = decay_columns<row>();
  add_stretch(c, "query bucket", &row::bucket);
  c.of(&row::bucket)
      .add("tau", "query position, tokens", &decay_bucket::tau)
      .add("pairs", "number of pairs drawn that the bucket admits", &decay_bucket::pairs)
      .add("plasticity", "AP_t, mean over the pairs", &decay_bucket::plasticity)
      .add("bound", "mean of min(1, exp(-gamma^2 t^2 / 8))", &decay_bucket::bound)
      .add("promised", "bound with 1 for pairs before their T_0, of which the theorem says nothing",
           &decay_bucket::promised)
      .add("past", "share of pairs with t of T_0 or more", &decay_bucket::past)
      .add("broken", "share of these pairs whose plasticity exceeds exp(-gamma^2 t^2 / 8)", &decay_bucket::broken);
  return std::move(c).with_rows([&heads](const auto& f) {
    for (const auto& h : heads)
      for (const auto* r : {&h.decay.full, &h.decay.pooled})
        for (const auto& b : r->buckets) f(row{&h, *r, &b});
  });
}

table complement_table(const std::vector<head_complement>& heads) {
  struct row {
    const head_complement* head;
    std::size_t p;
    const complement_plane& plane;
  };
  auto c = head_columns<3, row>(&row::head);
  c.add("plane", "number of the plane, from 0, by falling variance", &row::p);
  c.add("variance_share", "share of the pooled variance", [](auto& r) { return r.plane.variance_share; });
  const auto add_side = [&](const std::string& side, const std::string& of, plane_rotation complement_plane::*t) {
    c.add(side + "active",
          "1: the angle of the " + of + " in the plane is a linear function of position, resultant above level",
          [t](auto& r) { return (r.plane.*t).active; });
    c.add(side + "frequency", "frequency of the " + of + ", radians per token, in (-pi, pi]; the keys' is not negative",
          [t](auto& r) { return (r.plane.*t).frequency; });
    c.add(side + "resultant", "abs(mean exp(i(angle - omega t))) of the " + of + "; 1: the angle is linear in position",
          [t](auto& r) { return (r.plane.*t).resultant; });
    c.add(side + "level", "largest resultant of permuted positions of the " + of,
          [t](auto& r) { return (r.plane.*t).level; });
    c.add(side + "draws", "number of permutations of the " + of + " drawn, up to the first that is not beaten",
          [t](auto& r) { return (r.plane.*t).draws; });
    c.add(side + "variance_share", "share of the plane in the variance of the " + of,
          [t](auto& r) { return (r.plane.*t).variance_share; });
  };
  add_side("q_", "queries", &complement_plane::q);
  add_side("k_", "keys", &complement_plane::k);
  return std::move(c).with_rows([&heads](const auto& f) {
    for (const auto& h : heads)
      for (std::size_t p = 0; p < h.complement.planes.size(); ++p) f(row{&h, p, h.complement.planes[p]});
  });
}

}  // namespace qkgeom
