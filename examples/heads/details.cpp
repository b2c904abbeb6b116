// SPDX-License-Identifier: MIT
#include "examples/heads/tables.hpp"

#include <cmath>

#include "examples/common/each_layer.hpp"
#include "examples/common/figures/head_cells.hpp"
#include "examples/common/labels.hpp"
#include "qkgeom/geometry/complement.hpp"
#include "qkgeom/plasticity/decay.hpp"
#include "qkgeom/report/fit_report.hpp"
#include "qkgeom/report/head_tables.hpp"
#include "qkgeom/report/model_summary.hpp"

namespace qkgeom::examples {
namespace {

struct detail_tables {
  std::vector<head_fit> fits;
  std::vector<head_complement> complements;
  std::vector<head_decay> decays;
  std::vector<plasticity_bucket_table> tables;
};

template <class T>
void add_layer(cpu_context& cpu, const layer_view<T>& rows, const layer_moments& moments, const layer_names& names,
               const model_report& report, const analysis_options& options, detail_tables& found) {
  const auto planes = planar_rotation(cpu, moments);
  const auto complement = complement_planes(cpu, rows, moments, planes, {.seed = options.seed});
  const auto decay = check_decay(cpu, moments, rows, {.seed = options.seed, .position = options.position});
  auto tables = bucket_table(cpu, fit_queries(cpu, moments, {.position = options.position}), rows);
  auto fits =
      fit_layer(cpu, rows, names, report.buckets,
                {.scores = {.position = options.position, .seed = options.seed}, .drift = {.seed = options.seed}});
  for (std::size_t h = 0; h < planes.size(); ++h) {
    if (!options.wants_head({names.layer, names.query_heads[h]})) continue;
    const index_t key = names.key_heads[rows.key_of_query[h]];
    found.complements.push_back({names.layer, names.query_heads[h], key, complement[h]});
    found.decays.push_back({names.layer, names.query_heads[h], key, decay[h]});
    found.tables.push_back(std::move(tables[h]));
    found.fits.push_back(std::move(fits[h]));
  }
}

/// The mean of the finite values, or another statistic; NaN without any.
double mean_of(std::vector<double> x, head_statistic statistic = head_statistic::mean) {
  std::erase_if(x, [](double v) { return !std::isfinite(v); });
  return statistic_of(statistic, x);
}

/// The same of value(one) over a list.
template <class List, class Value>
double mean_over(const List& list, const Value& value, head_statistic statistic = head_statistic::mean) {
  std::vector<double> values;
  for (const auto& one : list) values.push_back(value(one));
  return mean_of(std::move(values), statistic);
}

std::string fit_words(const std::vector<head_fit>& fits) {
  const auto median = [&](double (*value)(const head_fit&)) { return mean_over(fits, value, head_statistic::median); };
  return "Fit: position explains " + percent(median([](const head_fit& f) { return f.r2_axis; })) +
         " of the queries' variance along their drift; score differences are " +
         fixed(median([](const head_fit& f) { return f.scores.all.ks_distance; })) +
         " from Gaussian ones (Kolmogorov-Smirnov; medians over heads)";
}

std::string gap_words(const model_report& report) {
  std::string words;
  for (std::size_t c = 0; !report.heads.empty() && c < report.heads[0].profiles.size(); ++c) {
    const double gap = mean_over(report.heads, [&](const head_report& h) {
      return h.empirical_unbiased ? h.summaries[c].overall.value - h.empirical_unbiased->overall.value : no_value;
    });
    if (!std::isfinite(gap)) return "Gap: unknown, --covariance does not name empirical";
    words += (c > 0 ? ", " : "") + std::string(report.heads[0].profiles[c].covariance) + " " + signed_fixed(gap, 3);
  }
  return "Gap: plasticity under a query model minus that of the observed queries: " + words;
}

std::string complement_words(const std::vector<head_complement>& heads) {
  std::vector<double> planes, queries, keys, query_variance, key_variance;
  for (const auto& h : heads) {
    double q = 0, k = 0;
    for (const auto& plane : h.complement.planes) {
      queries.push_back(plane.q.active);
      keys.push_back(plane.k.active);
      q += plane.q.active ? plane.q.variance_share : 0;
      k += plane.k.active ? plane.k.variance_share : 0;
    }
    planes.push_back(static_cast<double>(h.complement.planes.size()));
    query_variance.push_back(q);
    key_variance.push_back(k);
  }
  return "Rotation planes: of " + fixed(mean_of(planes), 0) + " per head, queries turn with position in " +
         percent(mean_of(queries)) + " (" + percent(mean_of(query_variance)) + " of their variance), keys in " +
         percent(mean_of(keys)) + " (" + percent(mean_of(key_variance)) + ")";
}

std::string decay_words(const std::vector<head_decay>& heads) {
  const double past = mean_over(heads, [](const head_decay& h) { return h.decay.pooled.past.value; });
  const double broken = mean_over(heads, [](const head_decay& h) { return h.decay.pooled.broken.value; });
  return "Decay theorem: " + percent(past) + " of pairs and query positions are past T_0; of all, " + percent(broken) +
         " are there and break the bound (one covariance for all buckets)";
}

/// Plasticity under the last query bucket of keys at the context's start, and of keys right before the bucket.
std::string table_words(const std::vector<plasticity_bucket_table>& tables) {
  std::vector<double> first, last;
  for (const auto& t : tables) {
    const index_t query = t.query_buckets.count() - 1;
    first.push_back(t.cell(query, 0).plasticity);
    for (index_t k = t.key_buckets.count(); k-- > 0;)
      if (const auto& cell = t.cell(query, k); cell.pairs > 0) {
        last.push_back(cell.plasticity);
        break;
      }
  }
  return "Key buckets: the last query bucket has plasticity " + fixed(mean_of(first)) +
         " over keys of the first bucket, " + fixed(mean_of(last)) + " over keys right before it";
}

std::string term_words(const model_report& report) {
  const auto term = [&](pair_term which) {
    return significant(mean_over(report.heads, [&](const head_report& h) {
      return summarize(term_profile(h.profiles[0], which), report.context_length).overall.value;
    }));
  };
  return "Pair terms: mean score difference of two keys " + term(pair_term::drift_mean) + " along the drift, " +
         term(pair_term::content_mean) + " off it; its variance " + term(pair_term::drift_variance) + " and " +
         term(pair_term::content_variance) + "; |z| " + term(pair_term::abs_z);
}

std::string later_words(const model_report& report, const std::vector<later_key_summary>& later) {
  std::size_t agreeing = 0;
  for (const auto& s : later) agreeing += s.agrees.value_or(false);
  return "Later keys: score higher with probability " +
         fixed(mean_over(later, [](const later_key_summary& s) { return s.later_wins.value; })) + "; in " +
         std::to_string(agreeing) + " of " + counted(report.heads.size(), "head") +
         " the key that the bias favours wins more often";
}

/// Plasticity of the drawn pairs along the context, and the theorem's bound, dashed.
line_figure decay_figure(const model_report& report, const std::vector<head_decay>& heads) {
  line_figure f;
  f.text = {"Plasticity and the bound of the decay theorem",
            about(report) + ", one covariance for all buckets; dashed: mean bound, 1 for pairs before their T_0",
            "query position (tokens, K = 1024)", "plasticity"};
  set_positions(f, report.buckets, report.context_length);
  const bool both = has_both_kinds(report);
  for (const bool rope : {true, false}) {
    line_figure::group found, bound;
    std::vector<std::vector<double>> found_mean(f.x.size()), bound_mean(f.x.size());
    for (std::size_t h = 0; h < heads.size(); ++h) {
      if (report.heads[h].rope != rope) continue;
      auto& trace = found.traces.emplace_back(f.x.size(), std::nan(""));
      std::size_t b = 0;
      for (const decay_bucket& bucket : heads[h].decay.pooled.buckets) {  // those with a query model
        while (report.buckets.start(static_cast<index_t>(b)) != bucket.start) ++b;
        trace[b] = bucket.plasticity.value;
        found_mean[b].push_back(bucket.plasticity.value);
        bound_mean[b].push_back(bucket.promised.value);
      }
    }
    if (found.traces.empty()) continue;
    const std::string kind = both ? rope ? "RoPE: " : "NoPE: " : "";
    found.name = kind + "mean of " + counted(found.traces.size(), "head");
    bound.name = kind + "bound";
    for (const auto& m : found_mean) found.mean.push_back(mean_of(m));
    for (const auto& m : bound_mean) bound.mean.push_back(mean_of(m));
    found.line = bound.line = rope ? rope_colour : nope_colour;
    bound.dashed = true;
    f.groups.push_back(std::move(found));
    f.groups.push_back(std::move(bound));
  }
  return f;
}

/// How often the later of two keys wins, against the bias.
scatter_figure later_figure(const model_report& report, const std::vector<later_key_summary>& later) {
  scatter_figure f;
  f.square = false;
  f.text = {
      "How often the later of two keys scores higher",
      about(report) + ", " + std::string(report.heads[0].profiles[0].covariance) + " query model",
      "bias strength: logits that a key gains over a context of " + std::to_string(report.context_length) + " tokens",
      "probability that the later key wins"};
  for (const bool rope : {true, false}) {
    scatter_figure::series s;
    for (std::size_t h = 0; h < later.size(); ++h)
      if (report.heads[h].rope == rope) s.add(report.heads[h].rotation.bias.context_logits, later[h].later_wins.value);
    if (s.x.empty()) continue;
    s.name = words_for_heads(rope ? "rope" : "nope");
    s.fill = rope ? rope_colour : nope_colour;
    s.shape = rope ? marker::circle : marker::diamond;
    f.points.push_back(std::move(s));
  }
  return f;
}

}  // namespace

std::vector<std::string> write_details(output_folder& out, const analysed& a, const arguments& choice) {
  cpu_context cpu{{.threads = choice.threads}};
  auto options = with_arguments({}, choice);
  for (const auto& h : a.report.heads) options.heads.push_back({h.layer, h.q_head});
  detail_tables found;
  for_each_layer(cpu, *a.source, choice, options, "Details",
                 [&](const auto& layer, const auto& rows, const layer_moments& moments) {
                   add_layer(cpu, rows, moments, {layer.layer, layer.rope, layer.query_heads, layer.key_heads},
                             a.report, options, found);
                 });
  out.write("fits.csv", fits_table(found.fits));
  out.write("gaps.csv", gaps_table(a.report));
  out.write("complement.csv", complement_table(found.complements));
  out.write("decay.csv", decay_table(found.decays));
  out.write("decay_profile.csv", decay_profile_table(found.decays));
  out.write("bucket_table.csv", bucket_table_table(a.report, found.tables));
  out.write("components.csv", components_table(a.report));
  out.write("later_keys.csv", later_keys_table(a.report));
  std::vector<later_key_summary> later;
  for (const auto& h : a.report.heads) later.push_back(later_keys(h, a.report.context_length));
  draw(decay_figure(a.report, found.decays), out.figure("decay"));
  draw(later_figure(a.report, later), out.figure("later_keys"));
  return {fit_words(found.fits),       gap_words(a.report),       complement_words(found.complements),
          decay_words(found.decays),   table_words(found.tables), term_words(a.report),
          later_words(a.report, later)};
}

}  // namespace qkgeom::examples
