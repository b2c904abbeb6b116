// SPDX-License-Identifier: MIT
#include "qkgeom/report/head_tables.hpp"

#include <optional>

#include "qkgeom/plasticity/pair_terms.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom {

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
