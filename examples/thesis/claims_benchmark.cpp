// SPDX-License-Identifier: MIT
// Chapters 6.4 and 7.2: plasticity beside LongBench-Pro.
#include <algorithm>
#include <map>

#include "examples/common/table.hpp"
#include "examples/thesis/claims.hpp"
#include "examples/thesis/profiles.hpp"
#include "qkgeom/stats/families.hpp"

namespace qkgeom::examples::thesis {
namespace {

const std::vector<std::string> family_order{"Mistral", "Qwen", "Llama"};  // the thesis' order, AP_drop ascending

double mean_of_scored(const published& p, const char* family, double model::*member) {
  std::vector<double> values;
  for (const auto& m : p.scored())
    if (m.family == family) values.push_back(m.*member);
  return mean(values);
}

finding family_means_in_order(const published& p) {
  condition_list which;
  for (std::size_t i = 1; i < family_order.size(); ++i) {
    const char *low = family_order[i - 1].c_str(), *high = family_order[i].c_str();
    which.emplace_back(std::string(low) + " flatter than " + high,
                       mean_of_scored(p, low, &model::drop) < mean_of_scored(p, high, &model::drop));
    which.emplace_back(std::string(low) + " scores above " + high,
                       mean_of_scored(p, low, &model::lbp) > mean_of_scored(p, high, &model::lbp));
  }
  return conditions(std::move(which),
                    "three families can stand in six orders: by chance one in six (exact p 0.17), "
                    "and Llama is one model");
}

std::string separation_words(const family_separation& s) {
  return std::to_string(s.n) + " models: " + fixed(100 * s.in_order, 0) + " % of " + std::to_string(s.pairs) +
         " pairs in order, " + (s.overlap ? "ranges overlap" : "ranges apart") + ", p " + significant(s.order.p, 2);
}

finding separates_families(const published& p) {
  condition_list which;
  std::string words;
  const std::map<std::string, std::vector<model>> sets{
      {"7 models", p.scored()}, {"11 models", p.primary()}, {"13 models", p.models}};
  for (const char* name : {"7 models", "11 models", "13 models"}) {
    const auto& models = sets.at(name);
    const auto s = separate_families(column(models, &model::drop), families_of(models), family_order);
    which.emplace_back(name, !s.overlap);
    words += (words.empty() ? "" : "; ") + separation_words(s);
  }
  return conditions(std::move(which), words);
}

finding scores_apart(const published& p) {
  const auto models = p.scored();
  auto order = family_order;
  std::reverse(order.begin(), order.end());
  const auto s = separate_families(column(models, &model::lbp), families_of(models), order);
  const auto &small = p.find("ministral3-3b"), &qwen = p.find("qwen3-4b");
  return conditions({{"families apart by score", !s.overlap}},
                    separation_words(s) + "; Ministral-3B " + fixed(small.lbp) + ", Qwen-4B " + fixed(qwen.lbp));
}

finding monotone_within_qwen(const published& p) {
  condition_list which;
  for (const auto& a : p.scored())
    for (const auto& b : p.scored())
      if (a.family == "Qwen" && b.family == "Qwen" && a.parameters > b.parameters)
        which.emplace_back(a.name + " over " + b.name, a.drop < b.drop && a.lbp > b.lbp);
  return conditions(std::move(which), "three models stand in one order of six by chance (p 0.33, two-sided)");
}

finding moves_together_within(const published& p) {
  const auto models = p.scored();
  const auto d = decompose_by_family(column(models, &model::drop), column(models, &model::lbp), families_of(models));
  condition_list which;
  for (const auto& f : d.families)
    if (f.inside.n >= 3) which.emplace_back(f.name, f.inside.correlation < -0.5);
  return conditions(std::move(which), "Pearson inside Mistral " + signed_fixed(d.families[0].inside.correlation) +
                                          ", inside Qwen " + signed_fixed(d.families[1].inside.correlation) +
                                          ", pooled within " + signed_fixed(d.within.correlation) +
                                          ", of family means " + signed_fixed(d.between.correlation));
}

finding drop_predicts_best(const published& p) {
  const auto models = p.scored();
  const auto lbp = column(models, &model::lbp), drop = column(models, &model::drop);
  condition_list which;
  std::string words;
  const std::vector<std::pair<std::string, double model::*>> others{
      {"AP_overall", &model::overall}, {"AP_last20", &model::last}, {"bias", &model::bias}};
  for (const auto& [name, member] : others) {
    const auto other = column(models, member);
    const auto c = compare_predictors(association::spearman, drop, other, lbp);
    const auto out = leave_one_out(association::pearson, other, lbp);
    which.emplace_back("better than " + name, c.difference > 0 && c.by_swap.p < 0.05);
    words += name + ": Spearman " + signed_fixed(c.second) + " (AP_drop " + signed_fixed(c.first) +
             "), difference of absolute values " + signed_fixed(c.difference) + ", exact p " + fixed(c.by_order.p) +
             " (orders), " + fixed(c.by_swap.p) + " (swaps), Pearson " +
             signed_fixed(associate(association::pearson, other, lbp)) + " (" + signed_fixed(out.low) + " to " +
             signed_fixed(out.high) + " with one model out); ";
  }
  const auto out = leave_one_out(association::pearson, drop, lbp);
  words += "AP_drop: Pearson " + signed_fixed(associate(association::pearson, drop, lbp)) + " (" +
           signed_fixed(out.low) + " to " + signed_fixed(out.high) + ")";
  return conditions(std::move(which), words);
}

finding lower_drop_higher_score(const published& p) {
  const auto models = p.scored();
  const auto x = column(models, &model::drop), y = column(models, &model::lbp);
  const auto s = test_association(association::spearman, x, y), r = test_association(association::pearson, x, y);
  const auto b = bootstrap_association(association::spearman, x, y);
  return conditions({{"negative", s.estimate < 0 && r.estimate < 0}, {"p below 0.05", s.p < 0.05 || r.p < 0.05}},
                    "Spearman " + signed_fixed(s.estimate) + " (95 % " + signed_fixed(b.low) + " to " +
                        signed_fixed(b.high) + ", exact p " + fixed(s.p) + "), Pearson " + signed_fixed(r.estimate) +
                        " (exact p " + fixed(r.p) + ")");
}

finding table_6_3(const published& p) {
  condition_list which;
  const auto same = [](double a, double b, double step) { return std::abs(a - b) <= step + 1e-9; };
  for (const auto& row : p.table_6_3) {
    const auto& m = p.find(row.model);
    which.emplace_back(row.model, same(row.lbp, m.lbp, 0.005) && same(row.overall, m.overall, printed_step) &&
                                      same(row.first, m.first, printed_step) && same(row.last, m.last, printed_step) &&
                                      same(row.drop, m.drop, printed_step));
  }
  return conditions(std::move(which));
}

finding lowest_in(const std::vector<model>& models, const char* name, double model::*member, bool lowest = true) {
  const auto best = std::min_element(models.begin(), models.end(), [&](const model& a, const model& b) {
    return lowest ? a.*member < b.*member : a.*member > b.*member;
  });
  return conditions({{name, best->name == name}},
                    (lowest ? "lowest: " : "highest: ") + best->name + ", " + significant((*best).*member, 3));
}

/// The text gives a family by the mean of its scored models.
finding family_mean(const published& p, const char* family) {
  return numbers({mean_of_scored(p, family, &model::drop)}, "of the scored models");
}

finding last_with_score(const published& p, double model::*member) {
  std::vector<double> values;
  for (const auto& m : p.scored())
    if (m.family == "Mistral") values.push_back(m.*member);
  return numbers(values);
}

const length_scores& ministral_scores(const published& p) { return p.measured.front(); }

/// Percent lost from the shortest length to `tokens`.
double decline(const std::vector<double>& values, const std::vector<double>& length, double tokens) {
  for (std::size_t i = 0; i < length.size(); ++i)
    if (length[i] == tokens) return 100 * (1 - values[i] / values[0]);
  return unknown;
}

finding both_decline(const published& p) {
  const auto& s = ministral_scores(p);
  condition_list which;
  for (std::size_t i = 1; i < s.length.size(); ++i) {
    const auto words = length_words(s.length[i]);
    which.emplace_back("score at " + words, s.score[i] < s.score[i - 1]);
    if (!std::isnan(s.plasticity[i]))
      which.emplace_back("plasticity at " + words, s.plasticity[i] < s.plasticity[i - 1]);
  }
  return conditions(std::move(which));
}

finding table_6_4_bins(const published& p) {
  const auto& s = ministral_scores(p);
  const auto& bins = p.find(s.model).bins;
  condition_list which;
  for (std::size_t i = 0; i < bins.size(); ++i)
    which.emplace_back(length_words(bins[i].to),
                       bins[i].to == s.length[i] && std::abs(bins[i].plasticity - s.plasticity[i]) <= printed_step);
  return conditions(std::move(which), "the score at length l stands beside positions [l/2, l); at 8K beside [0, 8K)");
}

finding modes_mixed(const published& p) {
  const auto& s = ministral_scores(p);
  return numbers({mean(s.score)}, "the six bins hold equally many samples, so they cannot be of the same mode as " +
                                      fixed(p.find(s.model).lbp) + "; compare shapes only");
}

double spread(const std::vector<model>& models, double model::*member) {
  const auto x = column(models, member);
  double square = 0;
  for (const double v : x) square += (v - mean(x)) * (v - mean(x));
  return std::sqrt(square / static_cast<double>(x.size() - 1)) / mean(x);
}

finding preservation_varies_less(const published& p) {
  const auto models = p.scored();
  const double score = spread(models, &model::lbp);
  return conditions(
      {{"AP_overall", spread(models, &model::overall) < score}, {"AP_drop", spread(models, &model::drop) < score}},
      "deviation over mean: score " + percent(score) + ", AP_overall " + percent(spread(models, &model::overall)) +
          ", AP_drop " + percent(spread(models, &model::drop)));
}

}  // namespace

claim_functions benchmark_claims() {
  return {
      {"models_in_benchmark", [](const published& p) { return numbers({p.models_in_benchmark}); }},
      {"family_means_in_order", family_means_in_order},
      {"separates_families", separates_families},
      {"scores_apart", scores_apart},
      {"mean_drop_ministral", [](const published& p) { return family_mean(p, "Mistral"); }},
      {"mean_drop_qwen", [](const published& p) { return family_mean(p, "Qwen"); }},
      {"mean_drop_llama", [](const published& p) { return family_mean(p, "Llama"); }},
      {"monotone_within_qwen", monotone_within_qwen},
      {"moves_together_within", moves_together_within},
      {"drop_predicts_best", drop_predicts_best},
      {"lower_drop_higher_score", lower_drop_higher_score},
      {"table_6_3", table_6_3},
      {"llama_last_in_both",
       [](const published& p) {
         auto f = lowest_in(p.scored(), "llama3.2-3b", &model::last);
         f.conditions.push_back({"by score", lowest_in(p.scored(), "llama3.2-3b", &model::lbp).conditions[0].second});
         return f;
       }},
      {"ministral_last", [](const published& p) { return last_with_score(p, &model::last); }},
      {"ministral_scores", [](const published& p) { return last_with_score(p, &model::lbp); }},
      {"ministral_3b_lowest_drop",
       [](const published& p) { return lowest_in(p.scored(), "ministral3-3b", &model::drop); }},
      {"plasticity_decline",
       [](const published& p) {
         const auto& s = ministral_scores(p);
         return numbers({decline(s.plasticity, s.length, 131072)});
       }},
      {"score_decline",
       [](const published& p) {
         const auto& s = ministral_scores(p);
         return numbers({decline(s.score, s.length, 131072)});
       }},
      {"both_decline", both_decline},
      {"table_6_4", table_6_4_bins},
      {"modes_mixed", modes_mixed},
      {"preservation_varies_less", preservation_varies_less},
      {"mistral_lowest_drop", [](const published& p) { return lowest_in(p.models, "mistral-v0.2-7b", &model::drop); }},
      {"mistral_highest_overall",
       [](const published& p) { return lowest_in(p.models, "mistral-v0.2-7b", &model::overall, false); }},
  };
}

}  // namespace qkgeom::examples::thesis
