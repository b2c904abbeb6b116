// SPDX-License-Identifier: MIT
// The thesis' tables, recomputed from the published numbers.
#include <algorithm>

#include "examples/thesis/claims.hpp"
#include "examples/thesis/outputs.hpp"
#include "examples/thesis/profiles.hpp"
#include "qkgeom/io/csv.hpp"

namespace qkgeom::examples::thesis {
namespace {

/// A table for a CSV file and the screen.
class result_table {
 public:
  result_table(std::string title, const std::string& file, std::vector<std::string> names)
      : title_(std::move(title)), file_(file), columns_(std::move(names)) {}

  void row(std::vector<std::string> names, const std::vector<double>& numbers, int digits = 3) {
    for (const double v : numbers)
      names.push_back(std::isnan(v) ? "" : std::abs(v) < 0.005 && v != 0 ? significant(v, 3) : fixed(v, digits));
    rows_.push_back(std::move(names));
  }

  void write(output_folder& out, printer& screen) const {
    csv_writer csv(out.table(file_), columns_);
    table t({columns_[0]}, {columns_.begin() + 1, columns_.end()});
    for (const auto& row : rows_) {
      for (const auto& cell : row) csv.add(cell);
      csv.end_row();
      t.row(row);
    }
    csv.commit();
    screen.heading(title_);
    screen.print(t);
  }

 private:
  std::string title_, file_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

void table_6_1(output_folder& out, printer& screen, const published& p) {
  result_table t("Table 6.1: quintiles as means of two deciles", "table_6_1.csv",
                 {"model", "0-20%", "20-40%", "40-60%", "60-80%", "80-100%", "ap_drop"});
  for (const auto& m : p.models) {
    std::vector<double> cells;
    for (std::size_t i = 0; i < 10; i += 2) cells.push_back(0.5 * (m.deciles[i] + m.deciles[i + 1]));
    cells.push_back(cells.front() - cells.back());
    t.row({m.name}, cells);
  }
  t.write(out, screen);
}

void table_6_2(output_folder& out, printer& screen, const published& p) {
  result_table t("Table 6.2: SmolLM3, with slopes per context beside those per token", "table_6_2.csv",
                 {"checkpoint", "context", "bias per token", "bias per context", "alpha_k per token",
                  "alpha_k per context", "r_k_a", "ap_overall", "ap_first20", "ap_last20", "ap_drop"});
  for (const auto& c : p.checkpoints)
    t.row({c.phase + ", " + c.name, length_words(c.context)}, {c.bias, c.bias_context(), c.alpha_k, c.alpha_context(),
                                                               c.r_k, c.overall, c.first, c.last, c.first - c.last});
  t.write(out, screen);
}

void table_6_3(output_folder& out, printer& screen, const published& p) {
  result_table t("Table 6.3: the seven scored models", "table_6_3.csv",
                 {"model", "family", "lbp", "ap_overall", "ap_first20", "ap_last20", "ap_drop", "bias per context"});
  auto models = p.scored();
  std::sort(models.begin(), models.end(), [](const model& a, const model& b) { return a.lbp > b.lbp; });
  for (const auto& m : models)
    t.row({m.name, m.family, fixed(m.lbp)}, {m.overall, m.first, m.last, m.first - m.last, m.bias_context()});
  t.write(out, screen);
}

/// Table 6.4, and table 8 for RULER, with changes from the shortest length.
void by_length(output_folder& out, printer& screen, const published& p) {
  result_table t("Tables 6.4 and 8: score and plasticity by length, and changes from the shortest in percent",
                 "table_6_4_and_8.csv",
                 {"model", "benchmark", "length", "score", "plasticity", "score change", "plasticity change",
                  "decile at the length"});
  for (const auto& s : p.measured)
    for (std::size_t i = 0; i < s.length.size(); ++i) {
      const auto& m = p.find(s.model);
      t.row({s.model, s.benchmark, length_words(s.length[i]), fixed(s.score[i])},
            {s.plasticity[i], 100 * (s.score[i] / s.score[0] - 1), 100 * (s.plasticity[i] / s.plasticity[0] - 1),
             decile_ending(m.deciles, m.captured, s.length[i])});
    }
  t.write(out, screen);
}

void table_9_and_10(output_folder& out, printer& screen, const published& p) {
  result_table nine(
      "Table 9: rotation of the predecessors", "table_9.csv",
      {"model", "bias per token", "bias per context", "alpha_k", "r_k_a", "r_q_a", "separation", "plane share"});
  result_table ten("Tables 4 and 10: deciles", "table_4_and_10.csv",
                   {"model", "0-10%", "10-20%", "20-30%", "30-40%", "40-50%", "50-60%", "60-70%", "70-80%", "80-90%",
                    "90-100%", "mean", "rise"});
  for (const auto& m : p.models) {
    if (!m.primary) nine.row({m.name}, {m.bias, m.bias_context(), m.alpha_k, m.r_k, m.r_q, m.separation, m.plane});
    auto cells = m.deciles;
    cells.push_back(mean(m.deciles));
    cells.push_back(recovery_of(m.deciles).rise);
    ten.row({m.name}, cells);
  }
  nine.write(out, screen);
  ten.write(out, screen);
}

/// Some models with the columns of the note.
void models_table(output_folder& out, printer& screen, const std::string& title, const std::string& file,
                  std::vector<model> models) {
  result_table t(title, file,
                 {"model", "layers", "context", "lbp", "ruler_128k", "ap_overall", "ap_first20", "ap_last20", "ap_drop",
                  "bias per token", "bias per context", "plane share"});
  const auto score = [](double v) { return std::isnan(v) ? std::string() : fixed(v); };
  for (const auto& m : models)
    t.row({m.name, trimmed(m.layers), length_words(m.captured), score(m.lbp), score(m.ruler_128k)},
          {m.overall, m.first, m.last, m.drop, m.bias, m.bias_context(), m.plane});
  t.write(out, screen);
}

void cross_model(output_folder& out, printer& screen, const published& p) {
  result_table t("SmolLM3 beside other models", "table_cross_model.csv",
                 {"model", "context claimed", "ap_drop", "bias per token", "bias per captured context"});
  const auto& smol = p.checkpoints.back();
  t.row({"smollm3-3b " + smol.phase, length_words(smol.context)}, {smol.drop, smol.bias, smol.bias_context()});
  for (const char* name : {"ministral3-3b", "qwen3-1.7b", "llama3.2-3b"}) {
    const auto& m = p.find(name);
    t.row({m.name, length_words(m.claimed)}, {m.drop, m.bias, m.bias_context()});
  }
  t.write(out, screen);
}

}  // namespace

void write_tables(output_folder& out, printer& screen, const published& p) {
  table_6_1(out, screen, p);
  table_6_2(out, screen, p);
  table_6_3(out, screen, p);
  by_length(out, screen, p);
  table_9_and_10(out, screen, p);
  auto all = p.models;
  std::sort(all.begin(), all.end(), [](const model& a, const model& b) { return a.overall > b.overall; });
  models_table(out, screen, "All models, by AP_overall", "table_all_models.csv", all);
  models_table(out, screen, "Generations: Llama 3.1 8B and 3.2 3B", "table_generations.csv",
               {p.find("llama3.1-8b"), p.find("llama3.2-3b")});
  models_table(out, screen, "Predecessor: Mistral 0.2 and Ministral 3 (0.2 over 32K alone)", "table_predecessor.csv",
               p.family("Mistral", true));
  cross_model(out, screen, p);
}

}  // namespace qkgeom::examples::thesis
