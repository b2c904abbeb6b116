// SPDX-License-Identifier: MIT
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace qkgeom::examples {

/// A number with `digits` decimals, "-" where there is none. Never "-0.00".
std::string fixed(double value, int digits = 2);
/// The same with a sign.
std::string signed_fixed(double value, int digits = 2);
/// Decimals for an error beside a value with `digits` of them: up to `more` others where it would read as nothing.
int decimals_of_error(double error, int digits, int more = 1);

/// `digits` significant digits, for values of any size: 0.000123, 4.56, 78900.
std::string significant(double value, int digits = 3);
/// The same with a sign: +87.3, -0.0012.
std::string signed_significant(double value, int digits = 3);
/// A share as "43 %".
std::string percent(double share);
/// A count with thin groups: 1 234 567.
std::string grouped(long long count);

/// How many columns of a terminal a UTF-8 text takes.
std::size_t display_width(const std::string& text);

/// A table for a terminal: columns as wide as they need, numbers to the right, thin rules.
class table {
 public:
  enum class align { left, right };
  struct column {
    std::string header;
    align side = align::right;
  };

  explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}

  /// Cells from the left; those not given stay empty. More cells than columns are an error.
  void row(std::vector<std::string> cells);
  /// A thin line before the next row.
  void rule();
  /// The table's lines, indented by two spaces; `bold` marks the header with terminal codes.
  std::string str(bool bold = false) const;

  const std::vector<column>& columns() const { return columns_; }
  /// All as wide as `columns`; an empty one stands for a rule.
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<column> columns_;
  std::vector<std::vector<std::string>> rows_;  ///< empty: a rule
};

/// Prints headings, lines and tables; bold only where `out` is a terminal and NO_COLOR is not set. What keeps them for
/// a page instead overrides all three.
class printer {
 public:
  explicit printer(std::FILE* out = stdout);
  virtual ~printer() = default;

  virtual void heading(const std::string& text);
  virtual void line(const std::string& text = {});
  virtual void print(const table& t);

 private:
  std::FILE* out_;  ///< none: everything is overridden
  bool bold_;
};

}  // namespace qkgeom::examples
