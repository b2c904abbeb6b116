// SPDX-License-Identifier: MIT
// The thesis' tables, recomputed from the published numbers.
#include "examples/thesis/outputs.hpp"
#include "examples/thesis/profiles.hpp"
#include "qkgeom/io/csv_write.hpp"

namespace qkgeom::examples::thesis {
namespace {

using cells = std::vector<std::string>;

void write(output_folder& out, printer& screen, const std::string& title, const std::string& file, const cells& names,
           const std::vector<cells>& rows) {
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

/// Rows of a published table with the text of each cell.
struct table_part {
  std::string rows;
  cells text;
};

void write(output_folder& out, printer& screen, const published& p, const std::string& title, const std::string& file,
           const cells& names, const std::vector<table_part>& parts) {
  std::vector<cells> rows;
  for (const auto& part : parts) {
    const auto first = rows.size();
    for (const auto& text : part.text) {
      const auto column = p.words_by_row(text, part.rows);
      rows.resize(first + column.size());
      for (std::size_t i = 0; i < column.size(); ++i) rows[first + i].push_back(column[i]);
    }
  }
  write(out, screen, title, file, names, rows);
}

/// Table 6.4, and table 8 for RULER, with changes from the shortest length.
void by_length(output_folder& out, printer& screen, const published& p) {
  std::vector<cells> rows;
  const auto number = [](double v) { return std::isnan(v) ? "" : fixed(v, 3); };
  for (const auto& s : p.measured) {
    const auto deciles = p.numbers("models[" + s.model + "].deciles");
    const double captured = p.number("models[" + s.model + "].captured");
    for (std::size_t i = 0; i < s.length.size(); ++i)
      rows.push_back({s.model, s.benchmark, length_words(s.length[i]), fixed(s.score[i]), number(s.plasticity[i]),
                      number(100 * (s.score[i] / s.score[0] - 1)),
                      number(100 * (s.plasticity[i] / s.plasticity[0] - 1)),
                      number(decile_ending(deciles, captured, s.length[i]))});
  }
  write(out, screen, "Tables 6.4 and 8: score and plasticity by length, and changes from the shortest in percent",
        "table_6_4_and_8.csv",
        {"model", "benchmark", "length", "score", "plasticity", "score change", "plasticity change",
         "decile at the length"},
        rows);
}

}  // namespace

void write_tables(output_folder& out, printer& screen, const published& p) {
  const auto show = [&](const std::string& title, const std::string& file, const cells& names,
                        const std::vector<table_part>& parts) { write(out, screen, p, title, file, names, parts); };
  const auto quintile = [](int from) {
    const auto decile = [](int i) { return "deciles[" + std::to_string(i) + "-" + std::to_string(i + 10) + "%]"; };
    return "(" + decile(from) + " + " + decile(from + 10) + ") / 2";
  };
  show("Table 6.1: quintiles as means of two deciles", "table_6_1.csv",
       {"model", "0-20%", "20-40%", "40-60%", "60-80%", "80-100%", "ap_drop"},
       {{"models",
         {"{name}", "{" + quintile(0) + ":p}", "{" + quintile(20) + ":p}", "{" + quintile(40) + ":p}",
          "{" + quintile(60) + ":p}", "{" + quintile(80) + ":p}", "{" + quintile(0) + " - " + quintile(80) + ":p}"}}});
  show("Table 6.2: SmolLM3, with slopes per context beside those per token", "table_6_2.csv",
       {"checkpoint", "context", "bias per token", "bias per context", "alpha_k per token", "alpha_k per context",
        "r_k_a", "ap_overall", "ap_first20", "ap_last20", "ap_drop"},
       {{"checkpoints",
         {"{phase}, {checkpoint}", "{context:K}", "{bias:p}", "{bias_context:p}", "{alpha_k:p}", "{alpha_context:p}",
          "{r_k:p}", "{overall:p}", "{first20:p}", "{last20:p}", "{first20 - last20:p}"}}});
  show("Table 6.3: the seven scored models", "table_6_3.csv",
       {"model", "family", "lbp", "ap_overall", "ap_first20", "ap_last20", "ap_drop", "bias per context"},
       {{"falling(scored, scored.lbp)",
         {"{name}", "{family}", "{lbp:2}", "{overall:p}", "{first20:p}", "{last20:p}", "{first20 - last20:p}",
          "{bias_context:p}"}}});
  by_length(out, screen, p);
  show("Table 9: rotation of the predecessors", "table_9.csv",
       {"model", "bias per token", "bias per context", "alpha_k", "r_k_a", "r_q_a", "separation", "plane share"},
       {{"models[primary = 0]",
         {"{name}", "{bias:p}", "{bias_context:p}", "{alpha_k:p}", "{r_k:p}", "{r_q:p}", "{separation:p}",
          "{plane:p}"}}});
  cells names{"model"}, deciles{"{name}"};
  for (int i = 0; i < 100; i += 10) {
    names.push_back(std::to_string(i) + "-" + std::to_string(i + 10) + "%");
    deciles.push_back("{deciles[" + names.back() + "]:p}");
  }
  names.insert(names.end(), {"mean", "rise"});
  deciles.insert(deciles.end(), {"{average(deciles):p}", "{recovery(deciles):p}"});
  show("Tables 4 and 10: deciles", "table_4_and_10.csv", names, {{"models", deciles}});
  const cells note{"model",      "layers",         "context",          "lbp",
                   "ruler_128k", "ap_overall",     "ap_first20",       "ap_last20",
                   "ap_drop",    "bias per token", "bias per context", "plane share"};
  const cells of_note{"{name}",      "{layers}",   "{captured:K}", "{lbp:2}",  "{ruler_128k:2}",   "{overall:p}",
                      "{first20:p}", "{last20:p}", "{drop:p}",     "{bias:p}", "{bias_context:p}", "{plane:p}"};
  show("All models, by AP_overall", "table_all_models.csv", note, {{"falling(models, models.overall)", of_note}});
  show("Generations: Llama 3.1 8B and 3.2 3B", "table_generations.csv", note,
       {{"llama_31_8b", of_note}, {"llama_32_3b", of_note}});
  show("Predecessor: Mistral 0.2 and Ministral 3 (0.2 over 32K alone)", "table_predecessor.csv", note,
       {{"models[family = 'Mistral']", of_note}});
  const cells of_model{"{name}", "{claimed:K}", "{drop:p}", "{bias:p}", "{bias_context:p}"};
  show("SmolLM3 beside other models", "table_cross_model.csv",
       {"model", "context claimed", "ap_drop", "bias per token", "bias per captured context"},
       {{"extended", {"smollm3-3b {phase}", "{context:K}", "{drop:p}", "{bias:p}", "{bias_context:p}"}},
        {"ministral_3b", of_model},
        {"models[qwen3-1.7b]", of_model},
        {"llama_32_3b", of_model}});
}

}  // namespace qkgeom::examples::thesis
