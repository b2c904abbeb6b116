// SPDX-License-Identifier: MIT
// Associations of scores by length with profiles, the share that length explains, and effective lengths.
#include "examples/thesis/correspondence.hpp"

#include <algorithm>

#include "examples/thesis/profiles.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/stats/resampling.hpp"

namespace qkgeom::examples::thesis {
namespace {

/// Plasticity of a model at the positions of a score's length; NaN beyond the captured context.
double matched(const published& p, const length_scores& scores, std::size_t i, const model& m,
               const std::string& positions) {
  const double l = scores.length[i];
  if (l > m.captured) return unknown;
  if (positions == "end") return decile_ending(m.deciles, m.captured, l);
  if (m.name == scores.model && !std::isnan(scores.plasticity[i])) return scores.plasticity[i];
  for (const auto& bin : m.bins)
    if (bin.to == l) return bin.plasticity;
  return decile_mean(m.deciles, m.captured, i == 0 && l == p.measured.front().length[0] ? 0 : l / 2, l);
}

correspondence correspond(const published& p, const length_scores& scores, const model& m,
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

/// Adds effective lengths for an absolute threshold and for shares of the first value; lengths ascend.
void add_lengths(std::vector<effective_length>& rows, const std::string& what, const std::string& name,
                 const std::vector<double>& length, const std::vector<double>& value, double absolute,
                 const std::vector<double>& shares) {
  const auto add = [&](const std::string& words, double threshold) {
    effective_length e{what, name, words};
    e.tokens = effective(length, value, threshold);
    e.open = e.tokens == length.back();
    rows.push_back(e);
  };
  add("absolute " + significant(absolute, absolute < 1 ? 2 : 3), absolute);
  for (const double share : shares) add("relative " + significant(share, 1), share * value.front());
}

}  // namespace

std::vector<correspondence> correspondences(const published& p) {
  auto scores = p.measured;
  scores.insert(scores.end(), p.references.begin(), p.references.end());
  std::vector<correspondence> rows;
  for (const char* positions : {"half", "end"})
    for (const auto& s : scores)
      for (const auto& m : p.models)
        if (const auto c = correspond(p, s, m, positions); c.n >= 3) rows.push_back(c);
  return rows;
}

std::vector<length_decline> length_declines(const published& p, const std::string& benchmark) {
  std::vector<length_decline> rows;
  for (const auto& s : p.measured) {
    if (s.benchmark != benchmark) continue;
    const auto& m = p.find(s.model);
    const double first = matched(p, s, 0, m, "half");
    length_decline d{s.model};
    for (std::size_t i = 1; i < s.length.size(); ++i)
      if (const double v = matched(p, s, i, m, "half"); !std::isnan(v))
        d = {s.model, 1 - s.score[i] / s.score[0], 1 - v / first};
    rows.push_back(d);
  }
  return rows;
}

length_agreement same_length_agreement(const published& p) {
  std::vector<const length_scores*> ruler;
  for (const auto& s : p.measured)
    if (s.benchmark == "RULER") ruler.push_back(&s);
  length_agreement r;
  for (std::size_t a = 0; a < ruler.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      for (std::size_t i = 0; i < ruler[a]->length.size(); ++i) {
        const double plasticity = ruler[a]->plasticity[i] - ruler[b]->plasticity[i];
        if (std::isnan(plasticity)) continue;
        ++r.lengths;
        r.agree += plasticity * (ruler[a]->score[i] - ruler[b]->score[i]) > 0;
      }
  return r;
}

double effective(const std::vector<double>& length, const std::vector<double>& value, double threshold) {
  double reached = unknown;
  for (std::size_t i = 0; i < length.size() && value[i] >= threshold; ++i) reached = length[i];
  return reached;
}

std::vector<effective_length> effective_lengths(const published& p, const effective_options& options) {
  std::vector<effective_length> rows;
  auto scores = p.measured;
  scores.insert(scores.end(), p.references.begin(), p.references.end());
  for (const auto& s : scores)
    add_lengths(rows, s.benchmark + " score", s.model, s.length, s.score,
                s.benchmark == "RULER" ? options.ruler : options.longbench, options.shares);
  for (const auto& m : p.models) {
    std::vector<double> to, value, ends;
    for (const auto& bin : m.bins) to.push_back(bin.to), value.push_back(bin.plasticity);
    if (!to.empty()) add_lengths(rows, "profile by length bin", m.name, to, value, options.plasticity, options.shares);
    for (std::size_t i = 1; i <= m.deciles.size(); ++i)
      ends.push_back(std::round(m.captured * static_cast<double>(i) / 10));
    add_lengths(rows, "profile by decile", m.name, ends, m.deciles, options.plasticity, options.shares);
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
  for (const auto& e : rows) csv.row(e.what, e.model, e.threshold, e.tokens, e.open);
  csv.commit();
}

void print_correspondences(printer& out, const published& p, const std::vector<correspondence>& rows) {
  out.heading("Scores by length l and plasticity at [l/2, l)");
  table t({{"scores of", table::align::left},
           {"lengths"},
           {"own profile"},
           {"p (Spearman)"},
           {"given log l"},
           {"log l alone"},
           {"other profiles", table::align::left},
           {"that fit better"}});
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
  std::vector<std::pair<std::string, std::vector<const effective_length*>>> groups;
  for (const auto& e : rows) {
    const auto key = e.what + '\n' + e.model;
    if (groups.empty() || groups.back().first != key) groups.push_back({key, {}});
    groups.back().second.push_back(&e);
  }
  table t({{"of", table::align::left}, {"model", table::align::left}, {"absolute"}, {"90 %"}, {"80 %"}});
  for (const auto& [key, lengths] : groups) {
    std::vector<std::string> cells{lengths[0]->what, lengths[0]->model};
    for (const auto* e : lengths)
      cells.push_back(std::isnan(e->tokens) ? "none" : (e->open ? "> " : "") + length_words(e->tokens));
    t.row(cells);
  }
  out.print(t);
}

}  // namespace qkgeom::examples::thesis
