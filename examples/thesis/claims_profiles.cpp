// SPDX-License-Identifier: MIT
// Chapter 6.2: plasticity profiles.
#include "examples/common/table.hpp"
#include "examples/thesis/claims.hpp"
#include "examples/thesis/profiles.hpp"
#include "qkgeom/stats/association.hpp"
#include "qkgeom/stats/resampling.hpp"

namespace qkgeom::examples::thesis {
namespace {

bool same(double a, double b) { return std::abs(a - b) <= printed_step + 1e-9; }

finding quintiles_from_deciles(const published& p) {
  condition_list which;
  for (const auto& m : p.primary())
    for (std::size_t i = 0; i < m.quintiles.size(); ++i)
      which.emplace_back(m.name + " quintile " + std::to_string(i + 1),
                         same(m.quintiles[i], 0.5 * (m.deciles[2 * i] + m.deciles[2 * i + 1])));
  return conditions(std::move(which), "so the query grid had equally many buckets in each decile");
}

finding quintile_drops(const published& p) {
  condition_list which;
  for (const auto& m : p.primary())
    which.emplace_back(m.name, same(m.quintile_drop, m.quintiles.front() - m.quintiles.back()));
  return conditions(std::move(which));
}

finding first_and_last_from_deciles(const published& p) {
  condition_list which;
  for (const auto& m : p.models) {
    which.emplace_back(m.name + " first", same(m.first, 0.5 * (m.deciles[0] + m.deciles[1])));
    which.emplace_back(m.name + " last", same(m.last, 0.5 * (m.deciles[8] + m.deciles[9])));
    which.emplace_back(m.name + " drop", same(m.drop, m.first - m.last));
  }
  return conditions(std::move(which));
}

finding overall_from_deciles(const published& p) {
  condition_list which;
  double most = 0;
  for (const auto& m : p.models) {
    which.emplace_back(m.name, same(m.overall, mean(m.deciles)));
    most = std::max(most, std::abs(m.overall - mean(m.deciles)));
  }
  return conditions(std::move(which), "up to " + significant(most, 2) + " apart: AP_overall weighs buckets otherwise");
}

finding monotone(const published& p, std::vector<double> model::*profile) {
  condition_list which;
  for (const auto& m : p.primary()) {
    const double rise = largest_rise(m.*profile);
    which.emplace_back(m.name + (rise > 0 ? " (rises by " + fixed(rise, 3) + ")" : ""), rise <= 0);
  }
  return conditions(std::move(which));
}

finding family_drops(const published& p, const char* family) {
  return numbers(each(p.family(family), [](const model& m) { return m.quintile_drop; }), "by size");
}

finding drop_of(const published& p, const char* name) {
  const auto& m = p.find(name);
  return numbers({m.quintiles.front(), m.quintiles.back()});
}

finding steepest_family(const published& p) {
  condition_list which;
  for (const auto& l : p.family("Llama"))
    for (const char* other : {"Mistral", "Qwen"})
      for (const auto& m : p.family(other))
        which.emplace_back(l.name + " over " + m.name, l.quintile_drop > m.quintile_drop);
  return conditions(std::move(which), "each Llama against each model of another family");
}

finding largest_drop(const published& p) {
  const auto& llama = p.find("llama3.2-3b");
  condition_list which;
  for (const auto& m : p.models)
    if (m.name != llama.name) which.emplace_back(m.name, m.drop < llama.drop);
  return conditions(std::move(which), "among all 13");
}

/// Least-squares slope per decile over five deciles.
double half_slope(const model& m, std::size_t from) {
  std::vector<double> x, y;
  for (std::size_t i = from; i < from + 5; ++i) {
    x.push_back(static_cast<double>(i));
    y.push_back(m.deciles[i]);
  }
  return fit_line(x, y).slope;
}

finding qwen_accelerates(const published& p) {
  condition_list which;
  std::vector<double> ratio;
  for (const auto& m : p.family("Qwen")) {
    ratio.push_back(half_slope(m, 5) / half_slope(m, 0));
    which.emplace_back(m.name, ratio.back() > 1);
  }
  return conditions(std::move(which), "slope of the second five deciles over that of the first: " + listed(ratio, 2));
}

finding ministral_linear(const published& p) {
  condition_list which;
  std::vector<double> fit, ratio, others;
  const std::vector<double> x{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (const auto& m : p.primary()) {
    const double r = associate(association::pearson, x, m.deciles), r2 = r * r;
    if (m.family != "Mistral") {
      others.push_back(r2);
      continue;
    }
    fit.push_back(r2);
    ratio.push_back(half_slope(m, 0) / half_slope(m, 5));
    which.emplace_back(m.name, r2 >= 0.95);
  }
  return conditions(std::move(which), "R2 of a line through the deciles (0.95 asked): " + listed(fit, 2) +
                                          "; of the other models " + listed(others, 2) + "; the first half falls " +
                                          listed(ratio, 2) + " times as fast");
}

finding larger_qwen_flatter(const published& p) {
  const auto qwen = p.family("Qwen");
  condition_list which;
  for (std::size_t i = 1; i < qwen.size(); ++i)
    which.emplace_back(qwen[i - 1].name + " to " + qwen[i].name, qwen[i].drop < qwen[i - 1].drop);
  const auto t = test_association(association::spearman, column(qwen, &model::parameters), column(qwen, &model::drop));
  return conditions(std::move(which), "drops by size " + listed(column(qwen, &model::drop), 3) + "; Spearman " +
                                          signed_fixed(t.estimate) + ", exact p " + fixed(t.p));
}

finding dips_and_recovers(const published& p) {
  const auto& q = p.find("llama3.2-11b").quintiles;
  return conditions({{"falls to 40-60 %", q[2] < q[1] && q[1] < q[0]},
                     {"recovers at 60-80 %", q[3] > q[2]},
                     {"falls below the dip at 80-100 %", q[4] < q[2]}});
}

finding same_pattern(const published& p) {
  const auto &a = p.find("llama3.2-11b").deciles, &b = p.find("llama3.1-8b").deciles;
  const auto r = recovery_of(a), s = recovery_of(b);
  return conditions({{"3.2 11B recovers", r.shows(printed_step)},
                     {"3.1 8B recovers", s.shows(printed_step)},
                     {"same dip", r.dip == s.dip},
                     {"same peak", r.peak == s.peak}},
                    "rises of " + fixed(r.rise, 3) + " and " + fixed(s.rise, 3) + "; r of the two deciles' rows " +
                        fixed(associate(association::pearson, a, b), 3) +
                        "; the 11B's text layers are the 8B's, so this is one observation");
}

finding highest_overall(const published& p) {
  const auto& own = p.find("ministral3-3b");
  condition_list which;
  for (const auto& m : p.scored())
    if (m.name != own.name) which.emplace_back(m.name, m.overall < own.overall);
  return conditions(std::move(which));
}

/// The thesis reads AP_overall's insignificant association as none; AP_drop's is insignificant as well.
finding overall_does_not_predict(const published& p) {
  const auto models = p.scored();
  const auto lbp = column(models, &model::lbp);
  const auto overall = test_association(association::spearman, column(models, &model::overall), lbp);
  const auto drop = test_association(association::spearman, column(models, &model::drop), lbp);
  return conditions({{"AP_overall: p above 0.05", overall.p > 0.05}, {"AP_drop: p below 0.05", drop.p < 0.05}},
                    "Spearman of AP_overall " + signed_fixed(overall.estimate) + ", exact p " + fixed(overall.p) +
                        "; of AP_drop " + signed_fixed(drop.estimate) + ", " + fixed(drop.p) +
                        "; Pearson of AP_overall " +
                        signed_fixed(associate(association::pearson, column(models, &model::overall), lbp)));
}

}  // namespace

claim_functions profile_claims() {
  return {
      {"quintiles_from_deciles", quintiles_from_deciles},
      {"quintile_drops", quintile_drops},
      {"first_last_from_deciles", first_and_last_from_deciles},
      {"overall_from_deciles", overall_from_deciles},
      {"quintiles_decline", [](const published& p) { return monotone(p, &model::quintiles); }},
      {"deciles_decline", [](const published& p) { return monotone(p, &model::deciles); }},
      {"drop_ministral", [](const published& p) { return family_drops(p, "Mistral"); }},
      {"drop_qwen", [](const published& p) { return family_drops(p, "Qwen"); }},
      {"drop_llama", [](const published& p) { return family_drops(p, "Llama"); }},
      {"llama_3b_ends", [](const published& p) { return drop_of(p, "llama3.2-3b"); }},
      {"llama_steepest", steepest_family},
      {"llama_3b_largest", largest_drop},
      {"qwen_accelerates", qwen_accelerates},
      {"ministral_linear", ministral_linear},
      {"larger_qwen_flatter", larger_qwen_flatter},
      {"llama_11b_dips", dips_and_recovers},
      {"llama_8b_same", same_pattern},
      {"ministral_3b_highest", highest_overall},
      {"overall_no_predictor", overall_does_not_predict},
  };
}

}  // namespace qkgeom::examples::thesis
