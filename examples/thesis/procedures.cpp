// SPDX-License-Identifier: MIT
// Claims whose test is more than an expression: orders of families, predictors compared, recoveries.
#include <cmath>

#include "examples/common/table.hpp"
#include "examples/thesis/claims.hpp"
#include "examples/thesis/expression.hpp"
#include "examples/thesis/profiles.hpp"
#include "qkgeom/stats/families.hpp"

namespace qkgeom::examples::thesis {
namespace {

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

}  // namespace

claim_functions procedures() {
  return {{"separates_families", separates_families},
          {"scores_apart", scores_apart},
          {"moves_together_within", moves_together_within},
          {"drop_predicts_best", drop_predicts_best},
          {"lower_drop_higher_score", lower_drop_higher_score},
          {"llama_8b_same", same_pattern},
          {"ruler_positions", ruler_positions},
          {"recovery_layers", recovering_layers}};
}

}  // namespace qkgeom::examples::thesis
