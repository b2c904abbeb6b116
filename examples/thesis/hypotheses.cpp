// SPDX-License-Identifier: MIT
// H1 to H8 of the benchmark note.
#include "examples/thesis/hypotheses.hpp"

#include "examples/thesis/hypothesis_tests.hpp"
#include "qkgeom/io/csv.hpp"

namespace qkgeom::examples::thesis {

hypotheses_result test_hypotheses(const std::filesystem::path& folder, const published& p, std::uint64_t seed) {
  hypotheses_result result;
  const auto stated = read_csv(folder / "hypotheses.csv");
  tester t(result, stated, seed);
  test_predictor(t, p, "H1", "AP_drop", &model::drop);
  test_predictor(t, p, "H2", "AP_last20", &model::last);
  test_by_length(t, p);
  test_bias(t, p);
  test_capability(t, p);
  test_parts(t, p);
  test_truncation(t, p);
  test_recovery(t, p);
  return result;
}

void write_hypotheses(const std::filesystem::path& file, const hypotheses_result& h) {
  csv_writer csv(file,
                 {"hypothesis", "test", "n", "estimate", "low", "high", "p", "p_standard_error", "verdict", "note"});
  for (const auto& v : h.verdicts) {
    for (const auto& t : h.tests)
      if (t.hypothesis == v.hypothesis)
        csv.row(t.hypothesis, t.test, t.n, t.estimate, t.low, t.high, t.p, std::isnan(t.p) ? unknown : t.p_error, "",
                t.note);
    csv.row(v.hypothesis, v.statement, std::nullopt, unknown, unknown, unknown, unknown, unknown, v.verdict, v.reading);
  }
  csv.commit();
}

void print_hypotheses(printer& out, const hypotheses_result& h) {
  for (const auto& v : h.verdicts) {
    out.heading(v.hypothesis + ": " + v.statement);
    table t({{"test", table::align::left}, {"n"}, {"estimate"}, {"95 % interval", table::align::left}, {"p"}});
    for (const auto& test : h.tests)
      if (test.hypothesis == v.hypothesis)
        t.row({test.test, std::to_string(test.n), significant(test.estimate),
               std::isnan(test.low) ? "" : signed_fixed(test.low) + " to " + signed_fixed(test.high),
               std::isnan(test.p)
                   ? ""
                   : significant(test.p, 2) + (test.p_error > 0 ? " ± " + significant(test.p_error, 1) : "")});
    out.print(t);
    out.line("  Verdict: " + v.verdict + ".");
    out.line("  " + v.reading + ".");
  }
}

}  // namespace qkgeom::examples::thesis
