// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace qkgeom::examples::thesis {

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// Mean plasticity over query positions in [from, to), tokens.
struct position_bin {
  double from = 0, to = 0, plasticity = unknown;
};

/// One of the 13 models of the cross-model study, means over its heads; NaN: not published.
struct model {
  std::string name, family;     ///< family: Mistral, Qwen or Llama, predecessors included
  bool primary = true;          ///< one of the 11 of chapter 6, not a predecessor
  double parameters = unknown;  ///< billions
  double layers = unknown;
  double claimed = unknown, captured = unknown;  ///< context, tokens
  double lbp = unknown, ruler_128k = unknown;    ///< benchmark scores, percent
  double overall = unknown, first = unknown, last = unknown, drop = unknown;
  double bias = unknown, alpha_k = unknown;  ///< per token
  double r_k = unknown, r_q = unknown, separation = unknown, plane = unknown;
  std::vector<double> deciles, quintiles;  ///< plasticity; empty: not published
  double quintile_drop = unknown;          ///< as printed beside the quintiles
  std::vector<position_bin> bins;          ///< 0-8K ... 64K-128K
  double bins_drop = unknown;              ///< as printed beside the bins

  double bias_context() const { return bias * captured; }
};

/// One of the ten SmolLM3 checkpoints.
struct checkpoint {
  std::string phase, name;
  double context = unknown;  ///< tokens
  double bias = unknown, alpha_k = unknown, r_k = unknown, separation = unknown, plane = unknown;
  double overall = unknown, first = unknown, last = unknown, drop = unknown;
  std::vector<position_bin> profile;  ///< empty: not published

  bool extension() const { return phase.rfind("LC", 0) == 0; }
  double bias_context() const { return bias * context; }
  double alpha_context() const { return alpha_k * context; }
};

/// Scores of one model on one benchmark by document length, with the plasticity printed beside them.
struct length_scores {
  std::string benchmark, model;
  std::vector<double> length, score, plasticity;  ///< tokens; percent; NaN: not printed
};

/// The weights and heads of the thesis' protocol.
struct study {
  std::string model, checkpoint;
  double heads_drawn = 0, heads_with_rows = 0;
  bool base_weights = true, sliding_window = false;
};

/// A row of table 6.3.
struct scored_row {
  std::string model;
  double lbp, overall, first, last, drop;
};

/// The tables of the thesis and its notes, as files of a folder.
struct published {
  std::vector<model> models;
  std::vector<checkpoint> checkpoints;  ///< in training order
  std::vector<length_scores> measured, references;
  std::vector<study> studies;
  std::vector<scored_row> table_6_3;
  struct change {
    double length, score, plasticity;
  };
  std::vector<change> ruler_changes;  ///< percent, as printed
  struct compared {
    std::string model;
    double drop, bias, context;
  };
  std::vector<compared> cross_model;  ///< the note's SmolLM3 comparison
  double models_in_benchmark = 0;     ///< of the 11, from the note's overlap table
  std::vector<double> class_shares;   ///< percent, 6.1.1
  double heads_analysed = unknown, primacy_heads = unknown;

  const model& find(std::string_view name) const;
  const checkpoint& find_checkpoint(std::string_view phase, std::string_view name) const;
  /// Models of a family; those outside the 11 of chapter 6 only with `predecessors`.
  std::vector<model> family(std::string_view name, bool predecessors = false) const;
  std::vector<model> primary() const;
  std::vector<model> scored() const;  ///< the 7 with a LongBench-Pro score
};

/// Reads the folder's tables. Throws `error` that names the file and the missing row or column.
published read_published(const std::filesystem::path& folder);

/// Parses a length: "8K" is 8192, "1.5K" 1536, "256" 256. Throws `error` at any other text.
double token_count(const std::string& text);
/// Writes a length: "8K", "89.6K", "256".
std::string length_words(double tokens);

/// One member of each row.
template <class Row, class Value>
std::vector<Value> column(const std::vector<Row>& rows, Value Row::*member) {
  std::vector<Value> values;
  for (const auto& row : rows) values.push_back(row.*member);
  return values;
}
/// f(row) of each row.
template <class Row, class Function>
auto each(const std::vector<Row>& rows, const Function& f) {
  std::vector<decltype(f(rows.front()))> values;
  for (const auto& row : rows) values.push_back(f(row));
  return values;
}

inline std::vector<std::string> families_of(const std::vector<model>& models) { return column(models, &model::family); }

}  // namespace qkgeom::examples::thesis
