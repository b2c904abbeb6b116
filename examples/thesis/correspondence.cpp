// SPDX-License-Identifier: MIT
// Associations of scores by length with profiles, the share that length explains, and effective lengths.
#include <algorithm>
#include <cmath>

#include "examples/thesis/thesis.hpp"
#include "qkgeom/stats/resampling.hpp"

namespace qkgeom::examples::thesis {
namespace {

/// The profiles of one of the models.
struct model_profiles {
  std::string name;
  double captured;
  std::vector<double> deciles, bins, ends;  ///< bins, up to their ends: not of all models, else NaN
};

std::vector<model_profiles> profiles_of(const published& p) {
  const auto names = p.texts("models.name");
  const auto captured = p.numbers("models.captured"), ends = p.numbers("ends(models.bins)");
  const auto deciles = p.profiles("models.deciles"), bins = p.profiles("models.bins");
  std::vector<model_profiles> all;
  for (std::size_t i = 0; i < names.size(); ++i) all.push_back({names[i], captured[i], deciles[i], bins[i], ends});
  return all;
}

/// Plasticity of a model at the positions of a score's length; NaN beyond the captured context.
double matched(const published& p, const length_scores& scores, std::size_t i, const model_profiles& m,
               const std::string& positions) {
  const double l = scores.length[i];
  if (l > m.captured) return unknown;
  if (positions == "end") return decile_ending(m.deciles, m.captured, l);
  if (m.name == scores.model && !std::isnan(scores.plasticity[i])) return scores.plasticity[i];
  for (std::size_t j = 0; j < m.ends.size(); ++j)
    if (m.ends[j] == l && !std::isnan(m.bins[j])) return m.bins[j];
  return decile_mean(m.deciles, m.captured, i == 0 && l == p.measured.front().length[0] ? 0 : l / 2, l);
}

correspondence correspond(const published& p, const length_scores& scores, const model_profiles& m,
                          const std::string& positions) {
  correspondence c{scores.benchmark, scores.model, m.name, positions};
  std::vector<double> score, plasticity, length;
  for (std::size_t i = 0; i < scores.length.size(); ++i) {
    const double v = matched(p, scores, i, m, positions);
    if (std::isnan(v)) continue;
    score.push_back(scores.score[i]);
    plasticity.push_back(v);
    length.push_back(std::log2(scores.length[i]));
  }
  c.n = score.size();
  if (c.n < 3) return c;
  c.pearson = associate(association::pearson, score, plasticity);
  const auto t = test_association(association::spearman, score, plasticity);
  c.spearman = t.estimate;
  c.spearman_p = t.p;
  c.score_with_length = associate(association::pearson, score, length);
  c.profile_with_length = associate(association::pearson, plasticity, length);
  if (c.n > 3) c.partial = partial_association(association::pearson, score, plasticity, length);
  return c;
}

/// Adds the longest of ascending lengths up to which every value is at or above a threshold: an absolute one, and
/// shares of the first value.
void add_lengths(std::vector<effective_length>& rows, const std::string& what, const std::string& name,
                 const std::vector<double>& length, const std::vector<double>& value, double absolute) {
  const auto add = [&](const std::string& words, double threshold) {
    double tokens = unknown;
    for (std::size_t i = 0; i < length.size() && value[i] >= threshold; ++i) tokens = length[i];
    rows.push_back({what, name, words, tokens, tokens == length.back()});
  };
  add("absolute " + significant(absolute, absolute < 1 ? 2 : 3), absolute);
  for (const double share : {0.9, 0.8}) add("relative " + significant(share, 1), share * value.front());
}

/// The scores by length of the measured models, then of the reference models.
std::vector<length_scores> all_scores(const published& p) {
  auto scores = p.measured;
  scores.insert(scores.end(), p.references.begin(), p.references.end());
  return scores;
}

}  // namespace

std::vector<correspondence> correspondences(const published& p) {
  const auto models = profiles_of(p);
  std::vector<correspondence> rows;
  for (const char* positions : {"half", "end"})
    for (const auto& s : all_scores(p))
      for (const auto& m : models)
        if (const auto c = correspond(p, s, m, positions); c.n >= 3) rows.push_back(c);
  return rows;
}

std::vector<length_decline> length_declines(const published& p, const std::string& benchmark) {
  const auto models = profiles_of(p);
  std::vector<length_decline> rows;
  for (const auto& s : p.measured) {
    if (s.benchmark != benchmark) continue;
    const auto& m = *std::find_if(models.begin(), models.end(), [&](const auto& one) { return one.name == s.model; });
    const double first = matched(p, s, 0, m, "half");
    length_decline d;
    for (std::size_t i = 1; i < s.length.size(); ++i)
      if (const double v = matched(p, s, i, m, "half"); !std::isnan(v))
        d = {1 - s.score[i] / s.score[0], 1 - v / first};
    rows.push_back(d);
  }
  return rows;
}

std::vector<effective_length> effective_lengths(const published& p, const effective_options& options) {
  std::vector<effective_length> rows;
  for (const auto& s : all_scores(p))
    add_lengths(rows, s.benchmark + " score", s.model, s.length, s.score,
                s.benchmark == "RULER" ? options.ruler : options.longbench);
  for (const auto& m : profiles_of(p)) {
    std::vector<double> deciles;
    for (std::size_t i = 1; i <= m.deciles.size(); ++i)
      deciles.push_back(std::round(m.captured * static_cast<double>(i) / 10));
    if (!std::isnan(m.bins.front()))
      add_lengths(rows, "profile by length bin", m.name, m.ends, m.bins, options.plasticity);
    add_lengths(rows, "profile by decile", m.name, deciles, m.deciles, options.plasticity);
  }
  return rows;
}

qkgeom::table correspondence_table(const std::vector<correspondence>& rows) {
  using row = correspondence;
  table_columns<row> c;
  c.add("benchmark", "LongBench-Pro or RULER", &row::benchmark);
  c.add("scores_of", "model that has the scores", &row::scores_of);
  c.add("profile_of", "model that has the profile", &row::profile_of);
  c.add("own", "1: both are of one model", [](auto& r) { return r.scores_of == r.profile_of; });
  c.add("positions", "`half`: plasticity at [l/2, l); `end`: in the decile that ends at l", &row::positions);
  c.add("lengths", "number of lengths l that have both", &row::n);
  c.add("pearson", "Pearson's r of score and plasticity over lengths", &row::pearson);
  c.add("spearman", "Spearman's rank correlation of both", &row::spearman);
  c.add("spearman_p", "exact two-sided p of spearman", &row::spearman_p);
  c.add("score_with_log_length", "Pearson's r of score and log2 l", &row::score_with_length);
  c.add("profile_with_log_length", "Pearson's r of plasticity and log2 l", &row::profile_with_length);
  c.add("pearson_given_log_length", "partial r of score and plasticity, log2 l taken out", &row::partial);
  return std::move(c).with_rows(rows);
}

qkgeom::table effective_table(const std::vector<effective_length>& rows) {
  using row = effective_length;
  table_columns<row> c;
  c.add("what", "scores of a benchmark, or a profile", &row::what).add("model", "name of the model", &row::model);
  c.add("threshold", "`absolute` value, or `relative`: share of the value at the shortest length", &row::threshold);
  c.add("tokens", "longest length up to which all values reach it; empty: the first does not", &row::tokens);
  c.add("open", "1: the value at the longest length reaches it too", &row::open);
  return std::move(c).with_rows(rows);
}

void print_correspondences(printer& out, const published& p, const std::vector<correspondence>& rows) {
  out.heading("Scores by length l and plasticity at [l/2, l)");
  table t({"scores of"}, {"lengths", "own profile", "p (Spearman)", "given log l", "log l alone"}, {"other profiles"},
          {"that fit better"});
  for (const auto& s : p.measured) {
    const correspondence* own = nullptr;
    std::vector<double> others;
    for (const auto& c : rows)
      if (c.scores_of == s.model && c.benchmark == s.benchmark && c.positions == "half") {
        if (c.profile_of == s.model)
          own = &c;
        else
          others.push_back(c.pearson);
      }
    if (!own || others.empty()) continue;
    const auto better = std::count_if(others.begin(), others.end(), [&](double r) { return r > own->pearson; });
    const auto [low, high] = std::minmax_element(others.begin(), others.end());
    t.row({s.model + ", " + s.benchmark, std::to_string(own->n), signed_fixed(own->pearson, 3),
           fixed(own->spearman_p, 3), signed_fixed(own->partial), signed_fixed(own->score_with_length, 3),
           signed_fixed(*low, 3) + " to " + signed_fixed(*high, 3),
           std::to_string(better) + " of " + std::to_string(others.size())});
  }
  out.print(t);
  out.line("Whatever falls with length goes with whatever else does: the last columns are the control.");
}

void print_effective_lengths(printer& out, const std::vector<effective_length>& rows) {
  out.heading("Effective length, tokens (> : not below the threshold at the longest length measured)");
  table t({"of", "model"}, {"absolute", "90 %", "80 %"});
  const auto words = [](const effective_length& e) {
    return std::isnan(e.tokens) ? "none" : (e.open ? "> " : "") + length_words(e.tokens);
  };
  for (std::size_t i = 0; i + 2 < rows.size(); i += 3)
    t.row({rows[i].what, rows[i].model, words(rows[i]), words(rows[i + 1]), words(rows[i + 2])});
  out.print(t);
}

}  // namespace qkgeom::examples::thesis
