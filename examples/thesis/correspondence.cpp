// SPDX-License-Identifier: MIT
// Associations of scores by length with profiles, the share that length explains, and effective lengths.
#include "examples/thesis/correspondence.hpp"

#include <algorithm>

#include "examples/thesis/profiles.hpp"
#include "qkgeom/io/csv.hpp"
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

/// The longest of ascending lengths up to which every value is at or above a threshold; NaN if the first is below.
double effective(const std::vector<double>& length, const std::vector<double>& value, double threshold) {
  double reached = unknown;
  for (std::size_t i = 0; i < length.size() && value[i] >= threshold; ++i) reached = length[i];
  return reached;
}

/// The effective lengths for an absolute threshold and for shares of the first value; lengths ascend.
effective_length lengths_above(const std::string& what, const std::string& name, const std::vector<double>& length,
                               const std::vector<double>& value, double absolute, const std::vector<double>& shares) {
  effective_length e{what, name, {}};
  const auto add = [&](const std::string& words, double threshold) {
    const double tokens = effective(length, value, threshold);
    e.limits.push_back({words, tokens, tokens == length.back()});
  };
  add("absolute " + significant(absolute, absolute < 1 ? 2 : 3), absolute);
  for (const double share : shares) add("relative " + significant(share, 1), share * value.front());
  return e;
}

}  // namespace

std::vector<correspondence> correspondences(const published& p) {
  auto scores = p.measured;
  scores.insert(scores.end(), p.references.begin(), p.references.end());
  const auto models = profiles_of(p);
  std::vector<correspondence> rows;
  for (const char* positions : {"half", "end"})
    for (const auto& s : scores)
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
    length_decline d{s.model};
    for (std::size_t i = 1; i < s.length.size(); ++i)
      if (const double v = matched(p, s, i, m, "half"); !std::isnan(v))
        d = {s.model, 1 - s.score[i] / s.score[0], 1 - v / first};
    rows.push_back(d);
  }
  return rows;
}

std::vector<effective_length> effective_lengths(const published& p, const effective_options& options) {
  std::vector<effective_length> rows;
  auto scores = p.measured;
  scores.insert(scores.end(), p.references.begin(), p.references.end());
  for (const auto& s : scores)
    rows.push_back(lengths_above(s.benchmark + " score", s.model, s.length, s.score,
                                 s.benchmark == "RULER" ? options.ruler : options.longbench, options.shares));
  for (const auto& m : profiles_of(p)) {
    std::vector<double> deciles;
    for (std::size_t i = 1; i <= m.deciles.size(); ++i)
      deciles.push_back(std::round(m.captured * static_cast<double>(i) / 10));
    if (!std::isnan(m.bins.front()))
      rows.push_back(
          lengths_above("profile by length bin", m.name, m.ends, m.bins, options.plasticity, options.shares));
    rows.push_back(lengths_above("profile by decile", m.name, deciles, m.deciles, options.plasticity, options.shares));
  }
  return rows;
}

void write_correspondences(const std::filesystem::path& file, const std::vector<correspondence>& rows) {
  csv_writer csv(file, {"benchmark", "scores_of", "profile_of", "own", "positions", "lengths", "pearson", "spearman",
                        "spearman_p", "score_with_log_length", "profile_with_log_length", "pearson_given_log_length"});
  for (const auto& c : rows)
    csv.row(c.benchmark, c.scores_of, c.profile_of, c.scores_of == c.profile_of, c.positions, c.n, c.pearson,
            c.spearman, c.spearman_p, c.score_with_length, c.profile_with_length, c.partial);
  csv.commit();
}

void write_effective_lengths(const std::filesystem::path& file, const std::vector<effective_length>& rows) {
  csv_writer csv(file, {"what", "model", "threshold", "tokens", "open"});
  for (const auto& e : rows)
    for (const auto& limit : e.limits) csv.row(e.what, e.model, limit.threshold, limit.tokens, limit.open);
  csv.commit();
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
  for (const auto& e : rows) {
    std::vector<std::string> cells{e.what, e.model};
    for (const auto& limit : e.limits)
      cells.push_back(std::isnan(limit.tokens) ? "none" : (limit.open ? "> " : "") + length_words(limit.tokens));
    t.row(cells);
  }
  out.print(t);
}

}  // namespace qkgeom::examples::thesis
