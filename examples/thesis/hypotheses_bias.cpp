// SPDX-License-Identifier: MIT
// H4, H6 and H8: bias, the causes of a falling profile, recovery.
#include <algorithm>

#include "examples/thesis/claims.hpp"
#include "examples/thesis/hypothesis_tests.hpp"
#include "examples/thesis/profiles.hpp"
#include "qkgeom/stats/families.hpp"

namespace qkgeom::examples::thesis {
namespace {

using columns = std::vector<double>;

struct bias_row {
  double token, context, drop;
  std::string group;
};

std::vector<bias_row> bias_rows(const published& p) {
  std::vector<bias_row> rows;
  for (const auto& c : p.checkpoints)
    rows.push_back({c.bias, c.bias_context(), c.drop, c.extension() ? "extended" : "pre-trained"});
  for (const auto& m : p.models) rows.push_back({m.bias, m.bias_context(), m.drop, m.family});
  return rows;
}

}  // namespace

void test_bias(tester& t, const published& p) {
  t.begin("H4");
  const auto all = bias_rows(p);
  const std::vector<bias_row> smol(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(p.checkpoints.size()));
  const std::vector<bias_row> models(all.begin() + static_cast<std::ptrdiff_t>(p.checkpoints.size()), all.end());
  const char* serial = "checkpoints of one run are not independent: p is too small";
  for (const auto& [rows, name] :
       {std::pair(smol, "10 checkpoints"), std::pair(models, "13 models"), std::pair(all, "all 23")}) {
    const std::string note = std::string(name) == "13 models" ? "" : serial;
    t.associate(association::spearman, "AP_drop with bias per token, " + std::string(name),
                column(rows, &bias_row::token), column(rows, &bias_row::drop), note);
    t.associate(association::spearman, "AP_drop with bias per context, " + std::string(name),
                column(rows, &bias_row::context), column(rows, &bias_row::drop), note);
  }
  const auto d = decompose_by_family(column(smol, &bias_row::token), column(smol, &bias_row::drop),
                                     each(smol, [](const bias_row& r) { return r.group; }));
  t.add("Pearson of AP_drop with bias per token, within pre-training and extension", d.within.n, d.within.correlation,
        d.reverses() ? "pooled " + signed_fixed(d.pooled.correlation) + ": Simpson's paradox" : "");
  const auto flat = each(all, [](const bias_row& r) { return std::string(r.drop < 0.10 ? "flat" : "steep"); });
  const auto token = separate_families(column(all, &bias_row::token), flat, {"flat", "steep"}, t.permutations());
  const auto context = separate_families(column(all, &bias_row::context), flat, {"flat", "steep"}, t.permutations());
  t.add_permutation("share of (flat, steep) pairs with less bias per token in the flat one", token.order,
                    "flat: AP_drop < 0.10");
  t.add_permutation("share of (flat, steep) pairs with less bias per context in the flat one", context.order, serial);
  const auto &before = p.find_checkpoint("Anneal", "stage3 4.72M"), &after = p.checkpoints.back();
  const double ratio = after.bias_context() / before.bias_context();
  t.add("bias per context after extension over before", 2, ratio);
  t.conclude(ratio >= 1 ? "not supported once bias is given per context" : "supported",
             "from the end of annealing to the end of extension bias changes by a factor of " +
                 trimmed(after.bias / before.bias, 2) + " per token and of " + trimmed(ratio, 3) +
                 " per context, AP_drop by " + signed_fixed(after.drop - before.drop, 3) +
                 (ratio >= 1 ? ": there is no reduction per context that could fail to suffice" : "") +
                 ". Of (flat, steep) pairs " + percent(context.in_order) +
                 " have less bias per context in the flat one, " + percent(token.in_order) + " less per token");
}

void test_parts(tester& t, const published& p) {
  t.begin("H6");
  columns x, y;
  for (const auto& c : p.checkpoints)
    if (!c.extension()) x.push_back(c.bias_context()), y.push_back(c.drop);
  const auto line = fit_line(x, y);
  t.associate(association::pearson, "AP_drop with bias per context in pre-training", x, y,
              "six checkpoints of one run");
  const auto &before = p.find_checkpoint("Anneal", "stage3 4.72M"), &after = p.checkpoints.back();
  t.add("AP_drop after extension less before", 2, after.drop - before.drop);
  const double excess = after.drop - line.value(after.bias_context()),
               error = line.prediction_error(after.bias_context());
  constexpr double t4 = 2.776;  // 97.5 % of Student's t with 4 degrees of freedom
  t.add("AP_drop after extension minus what pre-training's line gives at its bias per context",
        {.n = x.size(), .estimate = excess, .low = excess - t4 * error, .high = excess + t4 * error},
        "an extrapolation from bias up to " + fixed(*std::max_element(x.begin(), x.end()), 0) + " to " +
            fixed(after.bias_context(), 0) + ", and to another context and theta");
  t.conclude("waits for captures", "the tables hold no variance of content, so the excess of " +
                                       fixed(after.drop - before.drop, 3) +
                                       " has no cause in them; bias per context is " + fixed(before.bias_context(), 0) +
                                       " before and " + fixed(after.bias_context(), 0) +
                                       " after. Decided by drop_split over the captures of qkgeom-capture --protocol "
                                       "smollm3-stage3-step-4720000 and --protocol smollm3-lc-32k-to-64k-step-20000");
}

void test_recovery(tester& t, const published& p) {
  t.begin("H8");
  columns rises, once;
  std::vector<std::size_t> deep, deep_once;
  std::string others;
  for (const auto& m : p.models) {
    const auto r = recovery_of(m.deciles);
    const bool is = m.family == "Llama" && m.layers >= 32;
    rises.push_back(r.rise);
    deep.push_back(is);
    if (m.name != "llama3.2-11b") once.push_back(r.rise), deep_once.push_back(is);
    if (r.shows(printed_step) && !is) others += (others.empty() ? "" : ", ") + m.name + " by " + fixed(r.rise, 3);
    if (is) t.add("rise from dip to peak, " + m.name, 1, r.rise);
  }
  const auto excess = [](const columns& rise) {
    return [&rise](const std::vector<std::size_t>& labels) {
      double inside = 0, outside = 0, count = 0;
      for (std::size_t i = 0; i < rise.size(); ++i) {
        count += static_cast<double>(labels[i]);
        (labels[i] ? inside : outside) += rise[i];
      }
      return inside / count - outside / (static_cast<double>(rise.size()) - count);
    };
  };
  const auto both = permute(deep, false, t.permutations(), excess(rises));
  const auto single = permute(deep_once, false, t.permutations(), excess(once));
  t.add_permutation("mean rise of these models minus that of the others", both, "one-sided, names dealt anew");
  t.add_permutation("the same with 3.1 8B alone", single, "3.2 11B's text layers are the 8B's");
  t.conclude(both.p < 0.05 ? "holds in the 13 models, found and tested on the same ones" : "not decided",
             "exact p " + fixed(both.p, 3) + "; as 3.2 11B is built on 3.1 8B's text layers it is one observation (p " +
                 fixed(single.p, 3) +
                 "), and no other Llama is this deep. Smaller rises elsewhere: " + (others.empty() ? "none" : others) +
                 ". Layers decide: heads over qkgeom-capture --protocol llama3.1-8b, "
                 "recovery.csv, and a Llama of 32 layers or more that shares no weights with it");
}

}  // namespace qkgeom::examples::thesis
