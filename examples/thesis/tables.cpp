// SPDX-License-Identifier: MIT
// The thesis' tables, recomputed from the published numbers, and associations of metrics with scores over models,
// pooled and within families.
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "examples/thesis/outputs.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/stats/families.hpp"

namespace qkgeom::examples::thesis {
namespace {

/// The name of a metric in associations.csv, and its column.
const std::vector<std::pair<std::string, std::string>> metrics{
    {"ap_overall", ".overall"}, {"ap_first20", ".first20"},        {"ap_last20", ".last20"}, {"ap_drop", ".drop"},
    {"bias_token", ".bias"},    {"bias_context", ".bias_context"}, {"r_k_a", ".r_k"},        {"r_q_a", ".r_q"},
    {"plane_share", ".plane"},  {"parameters", ".parameters"}};

void write_scores(output_folder& out, printer& screen, const published& p, std::uint64_t seed) {
  const auto names = p.texts("scored.name");
  const auto lbp = p.numbers("scored.lbp");
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
  for (const auto& [metric, column] : metrics) {
    const auto x = p.numbers("scored" + column);
    std::vector<std::string> cells{metric};
    for (const auto kind : {association::pearson, association::spearman, association::kendall}) {
      const auto test = test_association(kind, x, lbp, {.seed = seed});
      const auto interval = bootstrap_association(kind, x, lbp, {.seed = seed});
      const auto range = leave_one_out(kind, x, lbp);
      csv.row(metric, "lbp", name_of(kind), test.n, test.estimate, test.p, test.standard_error, test.arrangements,
              interval.low, interval.high, range.low, names[range.low_without], range.high, names[range.high_without]);
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
  table t({"Pearson", "rows"}, {"pooled", "within", "of means"}, {""});
  const auto add = [&](const std::string& x_name, const std::string& y_name, const std::string& rows,
                       const std::string& table, const std::string& x, const std::string& y,
                       const std::vector<std::string>& families) {
    const auto d = decompose_by_family(p.numbers(table + x), p.numbers(table + y), families);
    write_decomposition(csv, x_name, y_name, rows, d);
    t.row({y_name + " with " + x_name, rows, signed_fixed(d.pooled.correlation), signed_fixed(d.within.correlation),
           signed_fixed(d.between.correlation), d.reverses() ? "reverses" : ""});
  };
  for (const auto& [metric, column] : metrics)
    add(metric, "lbp", "7 scored models", "scored", column, ".lbp", p.texts("scored.family"));
  for (const auto& [rows, table] : {std::pair("11 models", "primary"), {"13 models", "models"}})
    for (const auto& [metric, column] : metrics)
      if (metric == "bias_token" || metric == "bias_context" || metric == "parameters")
        add(metric, "ap_drop", rows, table, column, ".drop", p.texts(std::string(table) + ".family"));
  auto phases = p.texts("checkpoints.phase");
  for (auto& phase : phases) phase = phase.rfind("LC", 0) == 0 ? "extension" : "pre-training";
  add("bias_token", "ap_drop", "10 checkpoints", "checkpoints", ".bias", ".drop", phases);
  add("bias_context", "ap_drop", "10 checkpoints", "checkpoints", ".bias_context", ".drop", phases);
  add("bias_token", "separation", "10 checkpoints", "checkpoints", ".bias", ".separation", phases);
  csv.commit();
  screen.heading("Pooled, within families (or phases), and of their means");
  screen.print(t);
}

void write_separation(output_folder& out, printer& screen, const published& p, std::uint64_t seed) {
  csv_writer csv(out.table("separation.csv"),
                 {"metric", "models", "pairs", "in_order", "overlap", "means_in_order", "order_p", "arrangements",
                  "between_share", "between_p", "p_standard_error"});
  table t({"Mistral < Qwen < Llama by"}, {"models", "pairs in order"}, {"ranges"},
          {"exact p", "variance between", "exact p"});
  for (const auto& [name, x, families] : {std::tuple("ap_drop", "scored.drop", "scored.family"),
                                          {"ap_drop", "primary.drop", "primary.family"},
                                          {"ap_drop", "models.drop", "models.family"},
                                          {"negative lbp", "-scored.lbp", "scored.family"}}) {
    const auto s = separate_families(p.numbers(x), p.texts(families), {"Mistral", "Qwen", "Llama"}, {.seed = seed});
    csv.row(name, s.n, s.pairs, s.in_order, s.overlap, s.means_in_order, s.order.p, s.order.arrangements,
            s.variance.estimate, s.variance.p, s.order.standard_error);
    t.row({name, std::to_string(s.n), fixed(100 * s.in_order, 0) + " % of " + std::to_string(s.pairs),
           s.overlap ? "overlap" : "apart", significant(s.order.p, 2), percent(s.variance.estimate),
           significant(s.variance.p, 2)});
  }
  csv.commit();
  const auto r =
      rank_agreement(p.numbers("scored.drop"), p.numbers("-scored.lbp"), p.texts("scored.family"), {.seed = seed});
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

void write_tables(output_folder& out, printer& screen, const published& p, const std::filesystem::path& folder) {
  using cells = std::vector<std::string>;
  const auto list = read_csv(folder / "tables.csv");
  const auto text = [&](const char* column, std::size_t i) { return list.column(column)[i]; };
  for (std::size_t i = 0; i < list.rows();) {
    const auto title = text("title", i), file = text("file", i);
    cells names;
    std::vector<cells> rows;
    std::size_t first = 0, j = 0;  // first row and next column of a part
    for (std::string part; i < list.rows() && (text("title", i).empty() || part.empty()); ++i, ++j) {
      if (const auto& selected = text("rows", i); !selected.empty()) part = selected, first = rows.size(), j = 0;
      const auto column = p.words_by_row(text("cell", i), part);
      rows.resize(first + column.size());
      for (std::size_t r = 0; r < column.size(); ++r) rows[first + r].push_back(column[r]);
      if (j == names.size()) names.push_back(text("column", i));
    }
    csv_writer csv(out.table(file), names);
    table t({names[0]}, {names.begin() + 1, names.end()});
    for (const auto& row : rows) {
      for (const auto& cell : row) csv.add(cell);
      csv.end_row();
      t.row(row);
    }
    csv.commit();
    screen.heading(title);
    screen.print(t);
  }
}

}  // namespace qkgeom::examples::thesis
