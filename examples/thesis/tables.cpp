// SPDX-License-Identifier: MIT
// The thesis' tables, recomputed from the published numbers, and associations of metrics with scores over models,
// pooled and within families.
#include <tuple>

#include "examples/common/numbers/associations.hpp"
#include "examples/thesis/thesis.hpp"
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
  std::vector<score_association> rows;
  table t({{"with LongBench-Pro, 7 models", table::align::left},
           {"Pearson"},
           {"p"},
           {"one left out", table::align::left},
           {"Spearman"},
           {"p"},
           {"95 % interval", table::align::left},
           {"Kendall"},
           {"p"}});
  const auto range = [](const auto& r) { return signed_fixed(r.low) + " to " + signed_fixed(r.high); };
  for (const auto& [metric, column] : metrics) {
    std::vector<std::string> cells{metric};
    for (const auto& a : associations_of(metric, "lbp", p.numbers("scored" + column), p.numbers("scored.lbp"),
                                         p.texts("scored.name"), seed)) {
      cells.push_back(signed_fixed(a.test.estimate));
      cells.push_back(fixed(a.test.p));
      if (a.kind == association::pearson) cells.push_back(range(a.range));
      if (a.kind == association::spearman) cells.push_back(range(a.interval));
      rows.push_back(a);
    }
    t.row(cells);
  }
  table_columns<score_association> c;
  c.add("metric", "number of the model", &score_association::number);
  c.add("with", "`lbp`: the LongBench-Pro score", &score_association::score);
  add_association(c);
  out.write("associations.csv", std::move(c).with_rows(rows));
  screen.heading("Metrics and scores (exact two-sided permutation p)");
  screen.print(t);
}

void write_families(output_folder& out, printer& screen, const published& p) {
  struct row {
    std::string x, y, rows, part;
    slope_and_correlation of;
    bool reverses;
  };
  std::vector<row> all;
  table t({"Pearson", "rows"}, {"pooled", "within", "of means"}, {""});
  const auto add = [&](const std::string& x_name, const std::string& y_name, const std::string& rows,
                       const std::string& table, const std::string& x, const std::string& y,
                       const std::vector<std::string>& families) {
    const auto d = decompose_by_family(p.numbers(table + x), p.numbers(table + y), families);
    for (const auto& [part, of] :
         {std::pair("pooled", d.pooled), {"within families", d.within}, {"between family means", d.between}})
      all.push_back({x_name, y_name, rows, part, of, d.reverses()});
    for (const auto& f : d.families) all.push_back({x_name, y_name, rows, f.name, f.inside, d.reverses()});
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
  table_columns<row> c;
  c.add("x", "number of the model or checkpoint", &row::x).add("y", "number or score beside it", &row::y);
  c.add("rows", "models or checkpoints", &row::rows);
  c.add("part", "all rows, deviations from the families' means, these means, or one family (or phase)", &row::part);
  c.of(&row::of)
      .add("n", "number of rows", &slope_and_correlation::n)
      .add("pearson", "Pearson's r", &slope_and_correlation::correlation)
      .add("slope", "slope of y against x", &slope_and_correlation::slope);
  c.add("reverses", "1: pooled and within families differ in sign", &row::reverses);
  out.write("families.csv", std::move(c).with_rows(all));
  screen.heading("Pooled, within families (or phases), and of their means");
  screen.print(t);
}

void write_separation(output_folder& out, printer& screen, const published& p, std::uint64_t seed) {
  struct row {
    std::string metric;
    family_separation of;
  };
  std::vector<row> rows;
  table t({"Mistral < Qwen < Llama by"}, {"models", "pairs in order"}, {"ranges"},
          {"exact p", "variance between", "exact p"});
  for (const auto& [name, x, families] : {std::tuple("ap_drop", "scored.drop", "scored.family"),
                                          {"ap_drop", "primary.drop", "primary.family"},
                                          {"ap_drop", "models.drop", "models.family"},
                                          {"negative lbp", "-scored.lbp", "scored.family"}}) {
    const auto s = separate_families(p.numbers(x), p.texts(families), {"Mistral", "Qwen", "Llama"}, {.seed = seed});
    rows.push_back({name, s});
    t.row({name, std::to_string(s.n), fixed(100 * s.in_order, 0) + " % of " + std::to_string(s.pairs),
           s.overlap ? "overlap" : "apart", significant(s.order.p, 2), percent(s.variance.estimate),
           significant(s.variance.p, 2)});
  }
  table_columns<row> c;
  c.add("metric", "number of the model", &row::metric);
  c.of(&row::of)
      .add("models", "number of models", &family_separation::n)
      .add("pairs", "number of pairs of models of different families", &family_separation::pairs)
      .add("in_order", "share of these in the order Mistral, Qwen, Llama", &family_separation::in_order)
      .add("overlap", "1: a pair is in the opposite order", &family_separation::overlap)
      .add("means_in_order", "1: the families' means are in order", &family_separation::means_in_order)
      .add("order_p", "one-sided p of in_order, families dealt anew", [](auto& s) { return s.order.p; })
      .add("arrangements", "number of arrangements taken", [](auto& s) { return s.order.arrangements; })
      .add("between_share", "share of the variance between families", [](auto& s) { return s.variance.estimate; })
      .add("between_p", "one-sided p of between_share", [](auto& s) { return s.variance.p; })
      .add("p_standard_error", "standard error of order_p; 0: exact", [](auto& s) { return s.order.standard_error; });
  out.write("separation.csv", std::move(c).with_rows(rows));
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
    cells names, meanings;
    std::vector<cells> rows;
    std::size_t first = 0, j = 0;  // first row and next column of a part
    for (std::string part; i < list.rows() && (text("title", i).empty() || part.empty()); ++i, ++j) {
      if (const auto& selected = text("rows", i); !selected.empty()) part = selected, first = rows.size(), j = 0;
      const auto column = p.words_by_row(text("cell", i), part);
      rows.resize(first + column.size());
      for (std::size_t r = 0; r < column.size(); ++r) rows[first + r].push_back(column[r]);
      if (j == names.size()) names.push_back(text("column", i)), meanings.push_back(text("cell", i));
    }
    table_columns<cells> c;
    for (std::size_t k = 0; k < names.size(); ++k) c.add(names[k], meanings[k], [k](auto& row) { return row[k]; });
    out.write(file, std::move(c).with_rows(rows));
    table t({names[0]}, {names.begin() + 1, names.end()});
    for (const auto& row : rows) t.row(row);
    screen.heading(title);
    screen.print(t);
  }
}

}  // namespace qkgeom::examples::thesis
