// SPDX-License-Identifier: MIT
// Associations of metrics with scores over models, pooled and within families.
#include <functional>

#include "examples/thesis/outputs.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/stats/families.hpp"

namespace qkgeom::examples::thesis {
namespace {

struct metric {
  std::string name;
  std::function<double(const model&)> value;
};

const std::vector<metric>& metrics() {
  static const std::vector<metric> list{{"ap_overall", [](const model& m) { return m.overall; }},
                                        {"ap_first20", [](const model& m) { return m.first; }},
                                        {"ap_last20", [](const model& m) { return m.last; }},
                                        {"ap_drop", [](const model& m) { return m.drop; }},
                                        {"bias_token", [](const model& m) { return m.bias; }},
                                        {"bias_context", [](const model& m) { return m.bias_context(); }},
                                        {"r_k_a", [](const model& m) { return m.r_k; }},
                                        {"r_q_a", [](const model& m) { return m.r_q; }},
                                        {"plane_share", [](const model& m) { return m.plane; }},
                                        {"parameters", [](const model& m) { return m.parameters; }}};
  return list;
}

void write_scores(output_folder& out, printer& screen, const published& p, std::uint64_t seed) {
  const auto models = p.scored();
  const auto lbp = column(models, &model::lbp);
  csv_writer csv(out.table("associations.csv"),
                 {"metric", "with", "kind", "n", "estimate", "p", "p_standard_error", "orders", "low", "high",
                  "leave_one_out_low", "without_low", "leave_one_out_high", "without_high"});
  table t({{"with LongBench-Pro, 7 models", table::align::left},
           {"Pearson"},
           {"p"},
           {"one left out", table::align::left},
           {"Spearman"},
           {"p"},
           {"95 % interval", table::align::left},
           {"Kendall"},
           {"p"}});
  for (const auto& m : metrics()) {
    const auto x = each(models, m.value);
    std::vector<std::string> cells{m.name};
    for (const auto kind : {association::pearson, association::spearman, association::kendall}) {
      const auto test = test_association(kind, x, lbp, {.seed = seed});
      const auto interval = bootstrap_association(kind, x, lbp, {.seed = seed});
      const auto range = leave_one_out(kind, x, lbp);
      csv.row(m.name, "lbp", name_of(kind), test.n, test.estimate, test.p, test.standard_error, test.arrangements,
              interval.low, interval.high, range.low, models[range.low_without].name, range.high,
              models[range.high_without].name);
      cells.push_back(signed_fixed(test.estimate));
      cells.push_back(fixed(test.p));
      if (kind == association::pearson) cells.push_back(signed_fixed(range.low) + " to " + signed_fixed(range.high));
      if (kind == association::spearman)
        cells.push_back(signed_fixed(interval.low) + " to " + signed_fixed(interval.high));
    }
    t.row(cells);
  }
  csv.commit();
  screen.heading("Metrics and scores (exact two-sided permutation p)");
  screen.print(t);
}

void write_decomposition(csv_writer& csv, const std::string& x, const std::string& y, const std::string& rows,
                         const family_decomposition& d) {
  const auto part = [&](const std::string& name, const slope_and_correlation& s) {
    csv.row(x, y, rows, name, s.n, s.correlation, s.slope, d.reverses());
  };
  part("pooled", d.pooled);
  part("within families", d.within);
  part("between family means", d.between);
  for (const auto& f : d.families) part(f.name, f.inside);
}

void write_families(output_folder& out, printer& screen, const published& p) {
  csv_writer csv(out.table("families.csv"), {"x", "y", "rows", "part", "n", "pearson", "slope", "reverses"});
  table t({{"Pearson", table::align::left},
           {"rows", table::align::left},
           {"pooled"},
           {"within"},
           {"of means"},
           {"", table::align::left}});
  const auto add = [&](const std::string& x_name, const std::string& y_name, const std::string& rows,
                       const std::vector<double>& x, const std::vector<double>& y,
                       const std::vector<std::string>& families) {
    const auto d = decompose_by_family(x, y, families);
    write_decomposition(csv, x_name, y_name, rows, d);
    t.row({y_name + " with " + x_name, rows, signed_fixed(d.pooled.correlation), signed_fixed(d.within.correlation),
           signed_fixed(d.between.correlation), d.reverses() ? "reverses" : ""});
  };
  const auto scored = p.scored();
  for (const auto& m : metrics())
    add(m.name, "lbp", "7 scored models", each(scored, m.value), column(scored, &model::lbp), families_of(scored));
  const std::vector<std::pair<std::string, std::vector<model>>> sets{{"11 models", p.primary()},
                                                                     {"13 models", p.models}};
  for (const auto& [name, models] : sets)
    for (const auto& m : metrics())
      if (m.name == "bias_token" || m.name == "bias_context" || m.name == "parameters")
        add(m.name, "ap_drop", name, each(models, m.value), column(models, &model::drop), families_of(models));
  const auto phases = each(
      p.checkpoints, [](const checkpoint& c) { return std::string(c.extension() ? "extension" : "pre-training"); });
  const auto drop = column(p.checkpoints, &checkpoint::drop);
  add("bias_token", "ap_drop", "10 checkpoints", column(p.checkpoints, &checkpoint::bias), drop, phases);
  add("bias_context", "ap_drop", "10 checkpoints",
      each(p.checkpoints, [](const checkpoint& c) { return c.bias_context(); }), drop, phases);
  add("bias_token", "separation", "10 checkpoints", column(p.checkpoints, &checkpoint::bias),
      column(p.checkpoints, &checkpoint::separation), phases);
  csv.commit();
  screen.heading("Pooled, within families (or phases), and of their means");
  screen.print(t);
}

void write_separation(output_folder& out, printer& screen, const published& p, std::uint64_t seed) {
  csv_writer csv(out.table("separation.csv"),
                 {"metric", "models", "pairs", "in_order", "overlap", "means_in_order", "order_p", "arrangements",
                  "between_share", "between_p", "p_standard_error"});
  table t({{"Mistral < Qwen < Llama by", table::align::left},
           {"models"},
           {"pairs in order"},
           {"ranges", table::align::left},
           {"exact p"},
           {"variance between"},
           {"exact p"}});
  const std::vector<std::pair<std::string, std::vector<model>>> sets{
      {"ap_drop", p.scored()}, {"ap_drop", p.primary()}, {"ap_drop", p.models}, {"negative lbp", p.scored()}};
  for (const auto& [name, models] : sets) {
    const auto x =
        name == "ap_drop" ? column(models, &model::drop) : each(models, [](const model& m) { return -m.lbp; });
    const auto s = separate_families(x, families_of(models), {"Mistral", "Qwen", "Llama"}, {.seed = seed});
    csv.row(name, s.n, s.pairs, s.in_order, s.overlap, s.means_in_order, s.order.p, s.order.arrangements,
            s.variance.estimate, s.variance.p, s.order.standard_error);
    t.row({name, std::to_string(s.n), fixed(100 * s.in_order, 0) + " % of " + std::to_string(s.pairs),
           s.overlap ? "overlap" : "apart", significant(s.order.p, 2), percent(s.variance.estimate),
           significant(s.variance.p, 2)});
  }
  csv.commit();
  const auto models = p.scored();
  const auto r = rank_agreement(column(models, &model::drop), each(models, [](const model& m) { return -m.lbp; }),
                                families_of(models), {.seed = seed});
  screen.heading("Families along AP_drop and LongBench-Pro");
  screen.print(t);
  screen.line("Family means rank alike in " + std::to_string(r.agree) + " of " + std::to_string(r.pairs) +
              " pairs (exact p " + fixed(r.means.p) +
              ": three families cannot give less), models of different families in " + std::to_string(r.rows_agree) +
              " of " + std::to_string(r.row_pairs) + ".");
}

}  // namespace

void write_associations(output_folder& out, printer& screen, const published& p, std::uint64_t seed) {
  write_scores(out, screen, p, seed);
  write_families(out, screen, p);
  write_separation(out, screen, p, seed);
}

}  // namespace qkgeom::examples::thesis
