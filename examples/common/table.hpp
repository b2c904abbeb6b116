// SPDX-License-Identifier: MIT
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace qkgeom::examples {

/// A number with `digits` decimals; "-" for NaN and infinity, never "-0.00".
std::string fixed(double value, int digits = 2);
/// `fixed` with a plus sign for positive numbers.
std::string signed_fixed(double value, int digits = 2);
/// Decimals for an error beside a value of `digits` decimals: up to `more` additional ones if it would print as 0.
int decimals_of_error(double error, int digits, int more = 1);

/// `digits` significant digits, for values of any size: 0.000123, 4.56, 78900.
std::string significant(double value, int digits = 3);
/// `significant` with a plus sign for positive numbers: +87.3, -0.0012.
std::string signed_significant(double value, int digits = 3);
/// A share as "43 %".
std::string percent(double share);
/// A count with spaces between thousands: 1 234 567.
std::string grouped(long long count);

/// Number of terminal columns of a UTF-8 text.
std::size_t display_width(const std::string& text);
/// The UTF-8 characters of a text in order. A byte that belongs to no character is an `ill_formed` one of its own.
std::vector<std::string_view> characters(std::string_view text);
inline bool ill_formed(std::string_view character) {
  return character.size() == 1 && (static_cast<unsigned char>(character[0]) & 0x80) != 0;
}

/// A table for a terminal; columns are as wide as their longest cell.
class table {
 public:
  enum class align { left, right };
  struct column {
    std::string header;
    align side = align::right;
  };

  explicit table(std::vector<column> columns);
  /// Columns of words, aligned to the left, then columns of numbers, aligned to the right, then more of both.
  table(const std::vector<std::string>& words, const std::vector<std::string>& numbers,
        const std::vector<std::string>& more_words = {}, const std::vector<std::string>& more_numbers = {});

  /// Adds a row; missing cells stay empty. Throws `error` if there are more cells than columns.
  void row(std::vector<std::string> cells);
  /// A thin line before the next row.
  void rule();
  /// The table as lines indented by two spaces; `bold` sets the header in bold with terminal codes.
  std::string str(bool bold = false) const;

  const std::vector<column>& columns() const { return columns_; }
  /// Rows of columns().size() cells; an empty row is a rule.
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Prints headings, lines and tables, bold if `out` is a terminal and NO_COLOR is not set. `page_printer` overrides all
/// three to collect HTML.
class printer {
 public:
  explicit printer(std::FILE* out = stdout);
  virtual ~printer() = default;

  virtual void heading(const std::string& text);
  virtual void line(const std::string& text = {});
  virtual void print(const table& t);

 private:
  std::FILE* out_;  ///< null in page_printer
  bool bold_;
};

}  // namespace qkgeom::examples
