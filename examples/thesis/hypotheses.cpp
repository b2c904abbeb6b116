// SPDX-License-Identifier: MIT
// H1 to H8 of the benchmark note.
#include "examples/thesis/hypotheses.hpp"

#include <cmath>

#include "qkgeom/io/csv.hpp"

namespace qkgeom::examples::thesis {

void tester::add(std::string test, const permutation_test& t, std::string note) {
  add({.test = std::move(test),
       .n = t.n,
       .estimate = t.estimate,
       .p = t.p,
       .p_error = t.standard_error,
       .note = std::move(note)});
}

permutation_test tester::associate(association kind, const std::string& test, const std::vector<double>& x,
                                   const std::vector<double>& y, std::string note) {
  const auto t = test_association(kind, x, y, permutations_);
  const auto b = bootstrap_association(kind, x, y, resamples_);
  std::string name(name_of(kind));
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  add(name + " of " + test, t, std::move(note));
  auto& added = hypotheses_.back().tests.back();
  added.low = b.low;
  added.high = b.high;
  return t;
}

predictor_comparison tester::compare(const std::string& first, const std::vector<double>& a, const std::string& second,
                                     const std::vector<double>& b, const std::vector<double>& y) {
  const auto c = compare_predictors(association::spearman, a, b, y, permutations_, resamples_);
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

void tester::conclude(std::string verdict, std::string reading) {
  if (reading[0] >= 'a' && reading[0] <= 'z') reading[0] = static_cast<char>(reading[0] - 'a' + 'A');
  hypotheses_.back().verdict = std::move(verdict);
  hypotheses_.back().reading = std::move(reading);
}

std::vector<hypothesis> test_hypotheses(const published& p, std::uint64_t seed) {
  tester t(p, seed);
  test_predictor(t, p, "H1", "AP_drop", "scored.drop");
  test_predictor(t, p, "H2", "AP_last20", "scored.last20");
  test_by_length(t, p);
  test_bias(t, p);
  test_capability(t, p);
  test_parts(t, p);
  test_truncation(t, p);
  test_recovery(t, p);
  return t.hypotheses();
}

void write_hypotheses(const std::filesystem::path& file, const std::vector<hypothesis>& hypotheses) {
  csv_writer csv(file,
                 {"hypothesis", "test", "n", "estimate", "low", "high", "p", "p_standard_error", "verdict", "note"});
  for (const auto& h : hypotheses) {
    for (const auto& t : h.tests)
      csv.row(h.name, t.test, t.n, t.estimate, t.low, t.high, t.p, std::isnan(t.p) ? unknown : t.p_error, "", t.note);
    csv.row(h.name, h.statement, std::nullopt, unknown, unknown, unknown, unknown, unknown, h.verdict, h.reading);
  }
  csv.commit();
}

void print_hypotheses(printer& out, const std::vector<hypothesis>& hypotheses) {
  for (const auto& h : hypotheses) {
    out.heading(h.name + ": " + h.statement);
    table t({{"test", table::align::left}, {"n"}, {"estimate"}, {"95 % interval", table::align::left}, {"p"}});
    for (const auto& test : h.tests)
      t.row({test.test, std::to_string(test.n), significant(test.estimate),
             std::isnan(test.low) ? "" : signed_fixed(test.low) + " to " + signed_fixed(test.high),
             std::isnan(test.p)
                 ? ""
                 : significant(test.p, 2) + (test.p_error > 0 ? " ± " + significant(test.p_error, 1) : "")});
    out.print(t);
    out.line("  Verdict: " + h.verdict + ".");
    out.line("  " + h.reading + ".");
  }
}

}  // namespace qkgeom::examples::thesis
