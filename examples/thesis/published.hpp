// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qkgeom::examples::thesis {

inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
/// Two means printed with three decimals may differ by this much from rounding alone.
inline constexpr double printed_step = 0.001;

/// A column of a table, as printed or as numbers; empty texts and NaN are unknown.
struct table_column {
  std::string file{};                               ///< where its cells stand
  bool is_text = false;                             ///< of words, not of numbers
  std::vector<std::string> entries{};               ///< of a profile: what each entry of a row is called
  std::vector<std::vector<std::string>> printed{};  ///< by row, an entry or all of a profile; empty: no such row
  std::vector<double> numbers{};                    ///< by row, in place of printed text

  std::size_t width() const { return entries.empty() ? 1 : entries.size(); }
};

/// Named rows with named columns.
struct named_table {
  std::string name;
  std::vector<std::string> rows;
  std::map<std::string, table_column, std::less<>> columns{};
};

/// Rows of a table in an order.
struct table_rows {
  const named_table* table = nullptr;
  std::vector<std::size_t> index{};
};

/// The value of an expression: rows of a table, or by row a number, a condition (1, 0 or unknown) or a text.
struct value {
  enum class kind { numbers, condition, texts, rows };
  kind is = kind::numbers;
  std::vector<std::string> names{};    ///< of the rows; empty: no row, one value
  std::vector<std::string> entries{};  ///< of a profile, whose rows have several numbers
  std::vector<double> numbers{};       ///< row by row; NaN: unknown
  std::vector<std::string> texts{};
  table_rows rows{};

  std::size_t width() const { return entries.empty() ? 1 : entries.size(); }
  std::size_t height() const { return is == kind::texts ? texts.size() : numbers.size() / width(); }
  /// Names number i: its row, its entry of a profile, or both.
  std::string name_of(std::size_t i) const;
};

/// Applies the operator called `name`, such as mean or spearman. Throws `error` if there is none, or on arguments that
/// it does not take.
value apply_operator(std::string_view name, const std::vector<value>& arguments);

/// Combines numbers by + - * / < <= > >= = != ~ "and" "or", row by row and entry by entry; one value goes with all.
/// Compares texts by = and !=, where '...*' stands for all that begin so.
value combine(std::string_view sign, const value& left, const value& right);

/// Scores of one model on one benchmark by document length, with the plasticity printed beside them.
struct length_scores {
  std::string benchmark, model;
  std::vector<double> length, score, plasticity;  ///< tokens; percent; NaN: not printed
};

struct captured_model;

/// The tables of the thesis and its notes, which expressions read; data/README.md describes their language.
class published {
 public:
  /// Reads the files that columns.csv of the folder lists, the scores by length, and the names that definitions.csv
  /// gives to expressions. Throws `error` that names the file and the missing row or column.
  explicit published(const std::filesystem::path& folder);

  /// Evaluates an expression. Throws `error` that shows the expression and what is wrong with it.
  value evaluate(std::string_view expression) const;
  std::vector<double> numbers(std::string_view expression) const;
  double number(std::string_view expression) const;                              ///< of an expression that gives one
  std::vector<std::vector<double>> profiles(std::string_view expression) const;  ///< by row
  std::vector<std::string> texts(std::string_view expression) const;
  /// A text in which {EXPRESSION} or {EXPRESSION:FORMAT} is replaced by its value.
  std::string words(std::string_view text) const;
  /// The same once for each row that the expressions in it give, which may name columns of `rows`. Unknown is empty.
  std::vector<std::string> words_by_row(std::string_view text, const std::string& rows = {}) const;

  /// The same tables and another one, without captures.
  published with(named_table table) const;
  const named_table* table(std::string_view name) const;
  const std::string* definition(std::string_view name) const;

  std::vector<length_scores> measured{}, references{};
  const std::vector<captured_model>* captures = nullptr;  ///< what --captures gives, if anything

 private:
  published() = default;
  void read_columns(const std::filesystem::path& folder);
  void read_scores(const std::filesystem::path& folder);

  std::map<std::string, named_table, std::less<>> tables_{};
  std::map<std::string, std::string, std::less<>> definitions_{};
};

double mean(const std::vector<double>& x);

/// Recovery (6.2.1) of a profile of ten deciles: the peak is the largest decile in 50-90 % of the context, the dip the
/// smallest between 30 % and the peak, the end the smallest after the peak.
struct decile_recovery {
  double rise = 0, fall = 0;
  std::size_t dip = 0, peak = 0;  ///< deciles, from 0

  bool shows(double threshold) const { return rise > threshold && fall > threshold; }
};
decile_recovery recovery_of(const std::vector<double>& deciles);

/// Mean of the deciles over [from, to) tokens of a context of `length` tokens, weighted by overlap.
double decile_mean(const std::vector<double>& deciles, double length, double from, double to);
/// The decile that holds the positions just below `end`; the published tables call it the bucket that ends there.
double decile_ending(const std::vector<double>& deciles, double length, double end);

/// Parses a printed number; drops the footnote star and "~", "+", "%", "x". Empty is NaN. Throws `error` naming
/// `where`.
double printed_number(std::string_view text, std::string_view where);
/// Parses a length: "8K" is 8192, "1.5K" 1536, "256" 256. Throws `error` at any other text.
double token_count(std::string_view text);
/// Writes a length: "8K", "89.6K", "256".
std::string length_words(double tokens);

/// `significant` without trailing zeros.
std::string trimmed(double value, int digits = 4);
/// Up to six numbers as text, else the smallest, the largest and the count.
std::string listed(const std::vector<double>& values);

}  // namespace qkgeom::examples::thesis
