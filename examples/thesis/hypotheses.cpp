// SPDX-License-Identifier: MIT
// H1 to H8 of the benchmark note.
#include <algorithm>
#include <cmath>

#include "examples/thesis/thesis.hpp"
#include "qkgeom/stats/families.hpp"

namespace qkgeom::examples::thesis {
namespace {

using reals = std::vector<double>;

/// Collects the tests of one hypothesis after another.
class tester {
 public:
  tester(const published& p, std::uint64_t seed) : permutations{.seed = seed}, p_(p), resamples_{.seed = seed} {}

  void begin(const std::string& name) { name_ = name; }
  hypothesis_test& add(hypothesis_test test) {
    test.hypothesis = name_;
    return tests.emplace_back(std::move(test));
  }
  void add(std::string test, std::size_t n, double estimate, std::string note = {}) {
    add({.test = std::move(test), .n = n, .estimate = estimate, .note = std::move(note)});
  }
  hypothesis_test& add(std::string test, const permutation_test& t, std::string note) {
    return add({.test = std::move(test),
                .n = t.n,
                .estimate = t.estimate,
                .p = t.p,
                .p_error = t.standard_error,
                .note = std::move(note)});
  }
  permutation_test associate(association kind, const std::string& test, const reals& x, const reals& y,
                             std::string note = {}) {
    const auto t = test_association(kind, x, y, permutations);
    const auto b = bootstrap_association(kind, x, y, resamples_);
    std::string name(name_of(kind));
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
    auto& added = add(name + " of " + test, t, std::move(note));
    added.low = b.low;
    added.high = b.high;
    return t;
  }
  predictor_comparison compare(const std::string& first, const reals& a, const std::string& second, const reals& b,
                               const reals& y) {
    const auto c = compare_predictors(association::spearman, a, b, y, permutations, resamples_);
    for (const auto& [t, how] :
         {std::pair(c.by_swap, "; columns swapped"), std::pair(c.by_order, "; scores in any order")})
      add({.test = "|Spearman| of " + first + " minus that of " + second + how,
           .n = c.n,
           .estimate = c.difference,
           .low = c.interval.low,
           .high = c.interval.high,
           .p = t.p,
           .p_error = t.standard_error});
    return c;
  }
  void conclude(std::string verdict, std::string reading) {
    if (reading[0] >= 'a' && reading[0] <= 'z') reading[0] = static_cast<char>(reading[0] - 'a' + 'A');
    add({.test = p_.texts("hypotheses[" + name_ + "].statement").front(),
         .verdict = std::move(verdict),
         .note = std::move(reading)});
  }

  permutation_options permutations;
  std::vector<hypothesis_test> tests{};

 private:
  const published& p_;
  bootstrap_options resamples_;
  std::string name_{};
};

/// "supported" or "contradicted" if the difference is beyond chance, else "not decided".
std::string better_or_open(const predictor_comparison& c) {
  if (c.by_swap.p < 0.05) return c.difference > 0 ? "supported" : "contradicted";
  return "not decided: " + std::to_string(c.n) + " models cannot tell";
}

/// H1 and H2: whether a metric correlates more with the scores of the seven models than AP_overall does.
void test_predictor(tester& t, const published& p, const char* name, const std::string& words,
                    const std::string& column) {
  t.begin(name);
  const auto lbp = p.numbers("scored.lbp"), own = p.numbers(column), overall = p.numbers("scored.overall");
  const auto s = t.associate(association::spearman, words + " with score", own, lbp);
  t.associate(association::pearson, words + " with score", own, lbp);
  t.associate(association::kendall, words + " with score", own, lbp);
  t.associate(association::spearman, "AP_overall with score", overall, lbp);
  t.associate(association::pearson, "AP_overall with score", overall, lbp);
  t.associate(association::spearman, "parameters with score", p.numbers("scored.parameters"), lbp,
              "what size alone says of these models");
  const auto c = t.compare(words, own, "AP_overall", overall, lbp);
  const auto families = p.texts("scored.family");
  const auto d = decompose_by_family(own, lbp, families);
  t.add("Pearson of " + words + " with score, within families", d.within.n, d.within.correlation);
  t.add("Pearson of " + words + " with score, of family means", d.between.n, d.between.correlation);
  const auto o = decompose_by_family(overall, lbp, families);
  t.add("Pearson of AP_overall with score, within families", o.within.n, o.within.correlation,
        o.reverses() ? "the sign is that of no pooled coefficient: Simpson's paradox" : "");
  t.conclude(better_or_open(c), words + " has Spearman " + signed_fixed(s.estimate) + " (p " + fixed(s.p) +
                                    "), AP_overall " + signed_fixed(c.second) + "; the difference is " +
                                    signed_fixed(c.difference) + " (95 % " + signed_fixed(c.interval.low) + " to " +
                                    signed_fixed(c.interval.high) + ", p " + fixed(c.by_swap.p) + ")");
}

void test_by_length(tester& t, const published& p) {
  t.begin("H3");
  std::size_t worse = 0, others = 0;
  double own = unknown, length = unknown;
  auto rows = correspondences(p);
  std::erase_if(rows, [](const auto& r) { return r.benchmark != "LongBench-Pro" || r.positions != "half"; });
  for (const auto& row : rows) {
    if (row.scores_of != row.profile_of) continue;
    own = row.pearson;
    length = row.score_with_length;
    t.add("Pearson of " + row.scores_of + "'s scores with its profile by length", row.n, row.pearson,
          "both fall with length: with log2 of it " + signed_fixed(row.score_with_length) + " and " +
              signed_fixed(row.profile_with_length));
    t.add("the same with log2 of the length taken out", row.n, row.partial);
  }
  for (const auto& row : rows)
    if (row.scores_of == "ministral3-14b" && row.profile_of != row.scores_of) ++others, worse += row.pearson < own;
  t.add("profiles of other models that fit its scores worse", others, static_cast<double>(worse));
  t.add("RULER: share of lengths at which the model with more plasticity scores higher",
        static_cast<std::size_t>(p.number("count(ruler_mistral[plasticity > 0])")),
        p.number("mean((ruler.plasticity - ruler_mistral.plasticity) * (ruler.score - ruler_mistral.score) > 0)"),
        "two models, lengths both have");
  const auto declines = length_declines(p, "LongBench-Pro");
  std::string verdict = "waits for scores by length of the other six models";
  if (declines.size() >= 4) {
    reals plasticity, score;
    for (const auto& d : declines) plasticity.push_back(d.plasticity), score.push_back(d.score);
    const auto s = t.associate(association::spearman, "decline of plasticity with decline of score, 8K to 128K",
                               plasticity, score);
    verdict = s.p >= 0.05      ? "not decided: " + std::to_string(s.n) + " models cannot tell"
              : s.estimate > 0 ? "supported"
                               : "contradicted";
  }
  t.conclude(
      verdict,
      "Ministral 14B's scores correlate with its own profile (" + signed_fixed(own) + ") less than with those of " +
          std::to_string(others - worse) + " of " + std::to_string(others) +
          " other models, and with the logarithm of the length alone " + signed_fixed(length) +
          (declines.size() >= 4 ? ""
                                : ". Decided by LongBench-Pro predictions of the seven models grouped by length, "
                                  "as scores_by_length.csv (model,benchmark,length,score) beside the tables, "
                                  "and qkgeom thesis"));
}

void test_bias(tester& t, const published& p) {
  t.begin("H4");
  const auto over = [&](const std::vector<std::string>& tables, const std::string& column) {
    reals all;
    for (const auto& table : tables)
      for (const double x : p.numbers(table + column)) all.push_back(x);
    return all;
  };
  const std::vector<std::string> checkpoints{"checkpoints"}, models{"models"}, both{"checkpoints", "models"};
  const char* serial = "checkpoints of one run are not independent: p is too small";
  for (const auto& [name, tables] : {std::pair("10 checkpoints", checkpoints), {"13 models", models}, {"all 23", both}})
    for (const auto& [unit, column] : {std::pair("token", ".bias"), {"context", ".bias_context"}})
      t.associate(association::spearman, std::string("AP_drop with bias per ") + unit + ", " + name,
                  over(tables, column), over(tables, ".drop"), tables == models ? "" : serial);
  auto phases = p.texts("checkpoints.phase");
  for (auto& phase : phases) phase = phase.substr(0, 2) == "LC" ? "extended" : "pre-trained";
  const auto d = decompose_by_family(p.numbers("checkpoints.bias"), p.numbers("checkpoints.drop"), phases);
  t.add("Pearson of AP_drop with bias per token, within pre-training and extension", d.within.n, d.within.correlation,
        d.reverses() ? "pooled " + signed_fixed(d.pooled.correlation) + ": Simpson's paradox" : "");
  std::vector<std::string> flat;
  for (const double x : over(both, ".drop")) flat.emplace_back(x < 0.10 ? "flat" : "steep");
  const auto by_token = separate_families(over(both, ".bias"), flat, {"flat", "steep"}, t.permutations);
  const auto by_context = separate_families(over(both, ".bias_context"), flat, {"flat", "steep"}, t.permutations);
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

void test_capability(tester& t, const published& p) {
  t.begin("H5");
  const auto names = p.texts("scored.name");
  const auto drops = p.numbers("scored.drop"), scores = p.numbers("scored.lbp");
  std::vector<std::pair<double, std::string>> residuals;  // of each model, from a line through the six others
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto x = drops, y = scores;
    x.erase(x.begin() + static_cast<std::ptrdiff_t>(i));
    y.erase(y.begin() + static_cast<std::ptrdiff_t>(i));
    const auto line = fit_line(x, y);
    residuals.emplace_back((scores[i] - line.value(drops[i])) / line.prediction_error(drops[i]), names[i]);
  }
  std::sort(residuals.begin(), residuals.end());
  const auto at = std::find_if(residuals.begin(), residuals.end(), [](auto& r) { return r.second == "ministral3-3b"; });
  const double own = at->first;
  const double chance = static_cast<double>(at - residuals.begin() + 1) / static_cast<double>(residuals.size());
  t.add({.test = "residual of its score from a line through the six others, in prediction errors",
         .n = names.size(),
         .estimate = own,
         .p = chance,
         .note = "p: its rank among the seven from below; the most out is " + residuals.front().second});
  const double drop = p.number("ministral_3b.drop");
  t.add("AP_drop, target below 0.10", 1, drop);
  t.conclude("waits for scores at short lengths",
             std::string(drop < 0.10 ? "its profile is flat" : "its profile is not flat") + " and its score lies " +
                 fixed(std::abs(own), 1) + " prediction errors " + (own < 0 ? "below" : "above") +
                 " the line of the others, which chance gives in " + percent(chance) +
                 " of such rankings. Capability is not measured: a score at 8K far below the 14B's with the same "
                 "relative fall would support it (LongBench-Pro predictions grouped by length)");
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

void test_truncation(tester& t, const published& p) {
  t.begin("H7");
  const double lower = p.number("count(models[drop <= mistral_02.drop])"), all = p.number("count(models)");
  t.add({.test = "rank of its AP_drop among 13",
         .n = static_cast<std::size_t>(all),
         .estimate = lower,
         .p = lower / all,
         .note = "measured to 32K, others to 128K"});
  const auto change = [&](const std::string& table, const std::string& what) {
    const double percent = p.number(table + "[32K]." + what + "_change");
    t.add(p.texts(table + "[4K].model").front() + ": " + what + " change 4K to 32K, percent", 4, percent);
    return percent;
  };
  const double llama_score = change("ruler", "score"), llama = change("ruler", "plasticity"),
               own_score = change("ruler_mistral", "score"), own = change("ruler_mistral", "plasticity");
  const bool foreseen = (own_score < llama_score) == (own < llama);
  t.conclude(foreseen ? "supported in part" : "half of it: not truncation, and here not degradation either",
             "beyond its context nothing was measured, so plasticity cannot speak of it by construction (the limit is "
             "the context, not a sliding window). Inside 32K its score falls " +
                 fixed(-own_score, 1) + " % and Llama 3.1's " + fixed(-llama_score, 1) + " %, plasticity " +
                 fixed(-own, 1) + " % and " + fixed(-llama, 1) +
                 " %: " + (foreseen ? "the same order" : "the opposite order"));
}

void test_recovery(tester& t, const published& p) {
  t.begin("H8");
  const auto names = p.texts("models.name");
  const auto is_deep = p.numbers("models.(family = 'Llama' and layers >= 32)");
  const auto deciles = p.profiles("models.deciles");
  reals rises, once;
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
  const auto test = [&](const reals& rise, const std::vector<std::size_t>& labels) {
    return permute(labels, false, t.permutations, [&](const std::vector<std::size_t>& dealt) {
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

}  // namespace

std::vector<hypothesis_test> test_hypotheses(const published& p, std::uint64_t seed) {
  tester t(p, seed);
  test_predictor(t, p, "H1", "AP_drop", "scored.drop");
  test_predictor(t, p, "H2", "AP_last20", "scored.last20");
  for (const auto test : {test_by_length, test_bias, test_capability, test_parts, test_truncation, test_recovery})
    test(t, p);
  return t.tests;
}

qkgeom::table hypotheses_table(const std::vector<hypothesis_test>& tests) {
  using row = hypothesis_test;
  table_columns<row> c;
  c.add("hypothesis", "H1 to H8 of the benchmark note", &row::hypothesis);
  c.add("test", "the test; in the row of the verdict the hypothesis", &row::test);
  c.add("n", "number of rows that are tested", &row::n);
  c.add("estimate", "value of the tested number", &row::estimate);
  c.add("low", "lower end of the 95 % interval, bootstrap over rows", &row::low);
  c.add("high", "upper end of the 95 % interval", &row::high);
  c.add("p", "permutation p", &row::p);
  c.add("p_standard_error", "standard error of p; 0 if all arrangements were taken",
        [](auto& t) { return std::isnan(t.p) ? unknown : t.p_error; });
  c.add("verdict", "verdict on the hypothesis, in its last row", &row::verdict);
  c.add("note", "what to know of the test; the reading of the verdict", &row::note);
  return std::move(c).with_rows(tests);
}

void print_hypotheses(printer& out, const std::vector<hypothesis_test>& tests) {
  for (auto test = tests.begin(); test != tests.end(); ++test) {
    const auto verdict = std::find_if(test, tests.end(), [](const auto& t) { return !t.verdict.empty(); });
    out.heading(verdict->hypothesis + ": " + verdict->test);
    table t({"test"}, {"n", "estimate"}, {"95 % interval"}, {"p"});
    for (; test != verdict; ++test)
      t.row({test->test, std::to_string(*test->n), significant(test->estimate),
             std::isnan(test->low) ? "" : signed_fixed(test->low) + " to " + signed_fixed(test->high),
             std::isnan(test->p)
                 ? ""
                 : significant(test->p, 2) + (test->p_error > 0 ? " ± " + significant(test->p_error, 1) : "")});
    out.print(t);
    out.line("  Verdict: " + verdict->verdict + ".");
    out.line("  " + verdict->note + ".");
  }
}

}  // namespace qkgeom::examples::thesis
