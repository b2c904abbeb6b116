// SPDX-License-Identifier: MIT
// H4, H6 and H8: bias, the causes of a falling profile, recovery.
#include <tuple>

#include "examples/thesis/expression.hpp"
#include "examples/thesis/hypotheses.hpp"
#include "examples/thesis/profiles.hpp"
#include "qkgeom/stats/families.hpp"

namespace qkgeom::examples::thesis {
namespace {

using columns = std::vector<double>;

/// A column of the checkpoints, then of the models.
columns of_both(const published& p, const std::string& column) {
  auto all = p.numbers("checkpoints." + column);
  const auto models = p.numbers("models." + column);
  all.insert(all.end(), models.begin(), models.end());
  return all;
}

}  // namespace

void test_bias(tester& t, const published& p) {
  t.begin("H4");
  const auto token = of_both(p, "bias"), context = of_both(p, "bias_context"), drop = of_both(p, "drop");
  const auto smol = static_cast<std::ptrdiff_t>(p.number("count(checkpoints)")),
             all = static_cast<std::ptrdiff_t>(drop.size());
  const char* serial = "checkpoints of one run are not independent: p is too small";
  for (const auto& [name, from, to] :
       {std::tuple("10 checkpoints", 0L, smol), {"13 models", smol, all}, {"all 23", 0L, all}}) {
    const auto rows = [&, first = from, last = to](const columns& x) {
      return columns(x.begin() + first, x.begin() + last);
    };
    const std::string note = from == smol ? "" : serial;
    t.associate(association::spearman, "AP_drop with bias per token, " + std::string(name), rows(token), rows(drop),
                note);
    t.associate(association::spearman, "AP_drop with bias per context, " + std::string(name), rows(context), rows(drop),
                note);
  }
  auto phases = p.texts("checkpoints.phase");
  for (auto& phase : phases) phase = phase.substr(0, 2) == "LC" ? "extended" : "pre-trained";
  const auto d = decompose_by_family(p.numbers("checkpoints.bias"), p.numbers("checkpoints.drop"), phases);
  t.add("Pearson of AP_drop with bias per token, within pre-training and extension", d.within.n, d.within.correlation,
        d.reverses() ? "pooled " + signed_fixed(d.pooled.correlation) + ": Simpson's paradox" : "");
  std::vector<std::string> flat;
  for (const double x : drop) flat.emplace_back(x < 0.10 ? "flat" : "steep");
  const auto by_token = separate_families(token, flat, {"flat", "steep"}, t.permutations());
  const auto by_context = separate_families(context, flat, {"flat", "steep"}, t.permutations());
  t.add("share of (flat, steep) pairs with less bias per token in the flat one", by_token.order,
        "flat: AP_drop < 0.10");
  t.add("share of (flat, steep) pairs with less bias per context in the flat one", by_context.order, serial);
  const double ratio = p.number("extended.bias_context / annealed.bias_context");
  t.add("bias per context after extension over before", 2, ratio);
  t.conclude(ratio >= 1 ? "not supported once bias is given per context" : "supported",
             p.words("from the end of annealing to the end of extension bias changes by a factor of "
                     "{extended.bias / annealed.bias:t2} per token and of "
                     "{extended.bias_context / annealed.bias_context:t3} per context, AP_drop by "
                     "{extended.drop - annealed.drop:+3}") +
                 (ratio >= 1 ? ": there is no reduction per context that could fail to suffice" : "") +
                 ". Of (flat, steep) pairs " + percent(by_context.in_order) +
                 " have less bias per context in the flat one, " + percent(by_token.in_order) + " less per token");
}

void test_parts(tester& t, const published& p) {
  t.begin("H6");
  const auto x = p.numbers("pre_training.bias_context"), y = p.numbers("pre_training.drop");
  const auto line = fit_line(x, y);
  t.associate(association::pearson, "AP_drop with bias per context in pre-training", x, y,
              "six checkpoints of one run");
  const double bias = p.number("extended.bias_context"), drop = p.number("extended.drop");
  t.add("AP_drop after extension less before", 2, p.number("extended.drop - annealed.drop"));
  const double excess = drop - line.value(bias), error = line.prediction_error(bias);
  constexpr double t4 = 2.776;  // 97.5 % of Student's t with 4 degrees of freedom
  t.add({.test = "AP_drop after extension minus what pre-training's line gives at its bias per context",
         .n = x.size(),
         .estimate = excess,
         .low = excess - t4 * error,
         .high = excess + t4 * error,
         .note = p.words("an extrapolation from bias up to {high(pre_training.bias_context):0} to "
                         "{extended.bias_context:0}, and to another context and theta")});
  t.conclude(
      "waits for captures",
      p.words("the tables hold no variance of content, so the excess of {extended.drop - annealed.drop:3} has no "
              "cause in them; bias per context is {annealed.bias_context:0} before and {extended.bias_context:0} "
              "after. Decided by qkgeom drop-split over the captures of qkgeom capture --protocol "
              "smollm3-stage3-step-4720000 and --protocol smollm3-lc-32k-to-64k-step-20000"));
}

void test_recovery(tester& t, const published& p) {
  t.begin("H8");
  const auto names = p.texts("models.name");
  const auto is_deep = p.numbers("models.(family = 'Llama' and layers >= 32)");
  const auto deciles = p.profiles("models.deciles");
  columns rises, once;
  std::vector<std::size_t> deep, deep_once;
  std::string others;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto r = recovery_of(deciles[i]);
    const bool is = is_deep[i] == 1;
    rises.push_back(r.rise);
    deep.push_back(is);
    if (names[i] != "llama3.2-11b") once.push_back(r.rise), deep_once.push_back(is);
    if (r.shows(printed_step) && !is) others += (others.empty() ? "" : ", ") + names[i] + " by " + fixed(r.rise, 3);
    if (is) t.add("rise from dip to peak, " + names[i], 1, r.rise);
  }
  const auto test = [&](const columns& rise, const std::vector<std::size_t>& labels) {
    return permute(labels, false, t.permutations(), [&](const std::vector<std::size_t>& dealt) {
      double inside = 0, outside = 0, count = 0;
      for (std::size_t i = 0; i < rise.size(); ++i) {
        count += static_cast<double>(dealt[i]);
        (dealt[i] ? inside : outside) += rise[i];
      }
      return inside / count - outside / (static_cast<double>(rise.size()) - count);
    });
  };
  const auto both = test(rises, deep), single = test(once, deep_once);
  t.add("mean rise of these models minus that of the others", both, "one-sided, names dealt anew");
  t.add("the same with 3.1 8B alone", single, "3.2 11B's text layers are the 8B's");
  t.conclude(both.p < 0.05 ? "holds in the 13 models, found and tested on the same ones" : "not decided",
             "exact p " + fixed(both.p, 3) + "; as 3.2 11B is built on 3.1 8B's text layers it is one observation (p " +
                 fixed(single.p, 3) +
                 "), and no other Llama is this deep. Smaller rises elsewhere: " + (others.empty() ? "none" : others) +
                 ". Layers decide: qkgeom heads over qkgeom capture --protocol llama3.1-8b, "
                 "recovery.csv, and a Llama of 32 layers or more that shares no weights with it");
}

}  // namespace qkgeom::examples::thesis
