// SPDX-License-Identifier: MIT
// Judges each claim by its expression in claims.csv, or by the function of its id: orders of families, predictors
// compared, recoveries.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "examples/thesis/thesis.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/stats/families.hpp"

namespace qkgeom::examples::thesis {
namespace {

const char* name_of(verdict v) {
  return v == verdict::yes ? "yes" : v == verdict::in_part ? "in part" : v == verdict::no ? "no" : "undecided";
}

const std::vector<std::string> family_order{"Mistral", "Qwen", "Llama"};  // the thesis' order, AP_drop ascending

std::string separation_words(const family_separation& s) {
  return std::to_string(s.n) + " models: " + fixed(100 * s.in_order, 0) + " % of " + std::to_string(s.pairs) +
         " pairs in order, " + (s.overlap ? "ranges overlap" : "ranges apart") + ", p " + significant(s.order.p, 2);
}

finding separates_families(const published& p) {
  finding found;
  for (const std::string set : {"scored", "primary", "models"}) {
    const auto s = separate_families(p.numbers(set + ".drop"), p.texts(set + ".family"), family_order);
    found.conditions.emplace_back(std::to_string(s.n) + " models", !s.overlap);
    found.note += (found.note.empty() ? "" : "; ") + separation_words(s);
  }
  return found;
}

finding scores_apart(const published& p) {
  const auto s = separate_families(p.numbers("scored.lbp"), p.texts("scored.family"),
                                   {family_order.rbegin(), family_order.rend()});
  return {
      .conditions = {{"families apart by score", !s.overlap}},
      .note = separation_words(s) + p.words("; Ministral-3B {ministral_3b.lbp:2}, Qwen-4B {models[qwen3-4b].lbp:2}")};
}

finding moves_together_within(const published& p) {
  const auto d = decompose_by_family(p.numbers("scored.drop"), p.numbers("scored.lbp"), p.texts("scored.family"));
  finding found;
  for (const auto& f : d.families) {
    if (f.inside.n < 3) continue;
    found.conditions.emplace_back(f.name, f.inside.correlation < -0.5);
    found.note +=
        (found.note.empty() ? "Pearson inside " : ", inside ") + f.name + ' ' + signed_fixed(f.inside.correlation);
  }
  found.note += ", pooled within " + signed_fixed(d.within.correlation) + ", of family means " +
                signed_fixed(d.between.correlation);
  return found;
}

finding drop_predicts_best(const published& p) {
  const auto lbp = p.numbers("scored.lbp"), drop = p.numbers("scored.drop");
  const auto pearson = [&](const std::vector<double>& x) {
    const auto out = leave_one_out(association::pearson, x, lbp);
    return "Pearson " + signed_fixed(associate(association::pearson, x, lbp)) + " (" + signed_fixed(out.low) + " to " +
           signed_fixed(out.high);
  };
  finding found;
  for (const auto& [name, column] :
       {std::pair("AP_overall", "scored.overall"), {"AP_last20", "scored.last20"}, {"bias", "scored.bias"}}) {
    const auto other = p.numbers(column);
    const auto c = compare_predictors(association::spearman, drop, other, lbp);
    found.conditions.emplace_back(std::string("better than ") + name, c.difference > 0 && c.by_swap.p < 0.05);
    found.note += std::string(name) + ": Spearman " + signed_fixed(c.second) + " (AP_drop " + signed_fixed(c.first) +
                  "), difference of absolute values " + signed_fixed(c.difference) + ", exact p " +
                  fixed(c.by_order.p) + " (orders), " + fixed(c.by_swap.p) + " (swaps), " + pearson(other) +
                  " with one model out); ";
  }
  found.note += "AP_drop: " + pearson(drop) + ")";
  return found;
}

finding lower_drop_higher_score(const published& p) {
  const auto x = p.numbers("scored.drop"), y = p.numbers("scored.lbp");
  const auto s = test_association(association::spearman, x, y), r = test_association(association::pearson, x, y);
  const auto b = bootstrap_association(association::spearman, x, y);
  return {.conditions = {{"negative", s.estimate < 0 && r.estimate < 0}, {"p below 0.05", s.p < 0.05 || r.p < 0.05}},
          .note = "Spearman " + signed_fixed(s.estimate) + " (95 % " + signed_fixed(b.low) + " to " +
                  signed_fixed(b.high) + ", exact p " + fixed(s.p) + "), Pearson " + signed_fixed(r.estimate) +
                  " (exact p " + fixed(r.p) + ")"};
}

finding same_pattern(const published& p) {
  const auto a = p.numbers("models[llama3.2-11b].deciles"), b = p.numbers("llama_31_8b.deciles");
  const auto r = recovery_of(a), s = recovery_of(b);
  return {.conditions = {{"3.2 11B recovers", r.shows(printed_step)},
                         {"3.1 8B recovers", s.shows(printed_step)},
                         {"same dip", r.dip == s.dip},
                         {"same peak", r.peak == s.peak}},
          .note = "rises of " + fixed(r.rise, 3) + " and " + fixed(s.rise, 3) + "; r of the two deciles' rows " +
                  fixed(associate(association::pearson, a, b), 3) +
                  "; the 11B's text layers are the 8B's, so this is one observation"};
}

/// Which positions table 8 means: the mean of the deciles over [l/2, l), or the decile that ends at l.
finding ruler_positions(const published& p) {
  const auto deciles = p.numbers("llama_31_8b.deciles"), length = p.numbers("ruler.length"),
             plasticity = p.numbers("ruler.plasticity");
  const double captured = p.number("llama_31_8b.captured");
  finding found;
  for (std::size_t i = 0; i < length.size(); ++i) {
    if (length[i] < 65536) continue;  // deciles are 13107 tokens wide
    const double half = decile_mean(deciles, captured, length[i] / 2, length[i]);
    const double end = decile_ending(deciles, captured, length[i]);
    found.conditions.emplace_back(length_words(length[i]),
                                  std::abs(plasticity[i] - half) < std::abs(plasticity[i] - end));
    found.note += (found.note.empty() ? "" : "; ") + length_words(length[i]) + ": printed " + fixed(plasticity[i], 3) +
                  ", [l/2, l) " + fixed(half, 3) + ", the decile at l " + fixed(end, 3);
  }
  return found;
}

/// Recomputes claims that no expression can, by id.
const std::map<std::string, std::function<finding(const published&)>> functions{
    {"separates_families", separates_families},
    {"scores_apart", scores_apart},
    {"moves_together_within", moves_together_within},
    {"drop_predicts_best", drop_predicts_best},
    {"lower_drop_higher_score", lower_drop_higher_score},
    {"llama_8b_same", same_pattern},
    {"ruler_positions", ruler_positions},
    {"recovery_layers", recovering_layers}};

std::vector<stated_claim> read_claims(const std::filesystem::path& file) {
  const auto table = read_csv(file);
  const auto value = table.numbers("value"), upper = table.numbers("upper"), tolerance = table.numbers("tolerance");
  std::vector<stated_claim> claims;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const auto text = [&](const char* column) { return table.column(column)[i]; };
    claims.push_back({.id = text("id"),
                      .lists = text("lists"),
                      .where = text("where"),
                      .statement = text("statement"),
                      .thesis = text("thesis"),
                      .value = value[i],
                      .upper = std::isnan(upper[i]) ? value[i] : upper[i],
                      .tolerance = std::isnan(tolerance[i]) ? 0 : tolerance[i],
                      .captures = text("captures"),
                      .computed = text("computed"),
                      .cases = text("cases"),
                      .note = text("note")});
  }
  return claims;
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find("; ", begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 2;
  }
  return parts;
}

/// Adds what an expression gives, without the rows whose numbers are unknown. `cases` names conditions.
void add(finding& found, const published& p, const std::string& expression, const std::string& cases) {
  const auto v = p.evaluate(expression);
  require(v.is == value::kind::numbers || v.is == value::kind::condition, '"', expression,
          "\" gives neither numbers nor conditions");
  const auto names = cases.empty() ? std::vector<std::string>{} : p.words_by_row(cases);
  require(names.size() <= 1 || names.size() == v.numbers.size(), '"', cases, "\" names ", names.size(), " cases, \"",
          expression, "\" gives ", v.numbers.size());
  for (std::size_t i = 0; i < v.numbers.size(); ++i)
    if (!std::isnan(v.numbers[i])) {
      if (v.is == value::kind::numbers)
        found.numbers.push_back(v.numbers[i]);
      else
        found.conditions.emplace_back(names.empty() ? v.name_of(i) : names[names.size() == 1 ? 0 : i],
                                      v.numbers[i] == 1);
    }
}

verdict judge(const stated_claim& claim, const finding& found) {
  if (found.undecided) return verdict::undecided;
  std::size_t right = 0, all = found.conditions.size();
  for (const auto& condition : found.conditions) right += condition.second;
  if (!std::isnan(claim.value)) {
    require(found.conditions.empty() && !found.numbers.empty(), "claim ", claim.id,
            " states a number, so what it computes must be numbers");
    all = found.numbers.size();
    for (const double v : found.numbers)  // 1e-9: sums of printed decimals are rounded
      right += v >= claim.value - claim.tolerance - 1e-9 && v <= claim.upper + claim.tolerance + 1e-9;
  }
  require(all > 0, "claim ", claim.id, " states no number, so what it computes must be conditions");
  return right == all ? verdict::yes : right == 0 ? verdict::no : verdict::in_part;
}

std::string shown(const finding& found) {
  if (!found.text.empty() || (found.conditions.empty() && found.numbers.empty())) return found.text;
  if (found.conditions.empty()) return listed(found.numbers);
  std::size_t held = 0;
  std::string failing;
  for (const auto& [name, holds] : found.conditions) {
    held += holds;
    if (!holds) failing += (failing.empty() ? "" : ", ") + name;
  }
  const auto n = found.conditions.size();
  if (held == n) return n == 1 ? "holds" : "holds for all " + std::to_string(n);
  if (n == 1) return "does not hold";
  return "holds for " + std::to_string(held) + " of " + std::to_string(n) + ", not for " + failing;
}

}  // namespace

finding find_by_expression(const stated_claim& claim, const published& p) {
  try {
    finding found;
    const auto computed = parts_of(claim.computed), cases = parts_of(claim.cases);
    require(cases.empty() || cases.size() == computed.size(), "it computes ", computed.size(), " things and names ",
            cases.size());
    for (std::size_t i = 0; i < computed.size(); ++i) add(found, p, computed[i], cases.empty() ? "" : cases[i]);
    found.note = p.words(claim.note);
    return found;
  } catch (const error& e) {
    fail("claims.csv: the claim ", claim.id, ": ", e.what());
  }
}

std::vector<judged_claim> judge_claims(const std::filesystem::path& folder, const published& p) {
  std::vector<judged_claim> judged;
  std::set<std::string> seen;
  for (auto& claim : read_claims(folder / "claims.csv")) {
    require(seen.insert(claim.id).second, "claims.csv: the claim ", claim.id, " is there twice");
    const auto function = functions.find(claim.id);
    require(
        claim.computed.empty() == (function != functions.end()), "claims.csv: ",
        claim.computed.empty() ? "no expression and no function recomputes" : "an expression and a function recompute",
        " the claim ", claim.id);
    judged_claim j{.stated = claim,
                   .found = function != functions.end() ? function->second(p)
                            : !claim.captures.empty()   ? find_in_captures(claim, p)
                                                        : find_by_expression(claim, p),
                   .recomputed = {}};
    j.agrees = judge(j.stated, j.found);
    j.recomputed = shown(j.found);
    judged.push_back(std::move(j));
  }
  for (const auto& f : functions) require(seen.count(f.first) == 1, "claims.csv: the claim ", f.first, " is missing");
  return judged;
}

qkgeom::table claims_table(const std::vector<judged_claim>& claims) {
  table_columns<judged_claim> c;
  const auto stated = c.of(&judged_claim::stated);
  stated.add("id", "name of the claim", &stated_claim::id);
  stated.add("claim", "the statement", &stated_claim::statement);
  stated.add("where", "section, table or figure of the thesis, or its notes", &stated_claim::where);
  stated.add("thesis", "value that the thesis states", &stated_claim::thesis);
  c.add("recomputed", "value that the published tables or the captures give", &judged_claim::recomputed);
  c.add("agrees", "`yes`, `in part`, `no`, or `undecided`: waits for captures",
        [](auto& j) { return name_of(j.agrees); });
  c.of(&judged_claim::found).add("note", "how the value was computed, what to know of it", &finding::note);
  stated.add("lists", "lists of claims that it is in", &stated_claim::lists);
  return std::move(c).with_rows(claims);
}

void print_claims(printer& out, const std::vector<judged_claim>& claims) {
  out.heading("What the thesis states, and what its tables give");
  table t({"where", "claim", "thesis", "recomputed", "agrees"}, {});
  std::map<verdict, int> count;
  for (const auto& c : claims) {
    const auto names =
        c.recomputed.size() > 60 ? c.recomputed.find(", not for") : std::string::npos;  // a terminal is narrow
    t.row({c.stated.where, c.stated.statement, c.stated.thesis, c.recomputed.substr(0, names), name_of(c.agrees)});
    ++count[c.agrees];
  }
  out.print(t);
  out.line(std::to_string(claims.size()) + " claims: " + std::to_string(count[verdict::yes]) + " agree, " +
           std::to_string(count[verdict::in_part]) + " in part, " + std::to_string(count[verdict::no]) + " do not, " +
           std::to_string(count[verdict::undecided]) + " need captures.");
}

}  // namespace qkgeom::examples::thesis
