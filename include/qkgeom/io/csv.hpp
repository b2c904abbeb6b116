// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom {

/// A CSV table by columns. Fields are the text in the file without its quotes.
class csv_table {
 public:
  csv_table(std::string where, std::vector<std::string> columns)
      : where_(std::move(where)), columns_(std::move(columns)), fields_(columns_.size()) {}

  const std::vector<std::string>& columns() const { return columns_; }
  std::size_t rows() const { return fields_.empty() ? 0 : fields_.front().size(); }
  bool has(std::string_view name) const { return std::find(columns_.begin(), columns_.end(), name) != columns_.end(); }

  /// Fields of a column. Throws `error` naming the file if there is no such column.
  const std::vector<std::string>& column(std::string_view name) const;
  /// A column of numbers; empty fields are NaN. Throws `error` naming file, column and row where a field is no number.
  std::vector<double> numbers(std::string_view name) const;

  /// Adds a row. Throws `error` unless it has one field per column.
  void add_row(std::vector<std::string> fields);

 private:
  std::string where_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> fields_;
};

/// Reads a CSV file with a header row. Throws `error` naming the file and the line: a row with another number of
/// fields, a column named twice, an open quote, more than 4 million fields, a file above `max_bytes`.
csv_table read_csv(const std::filesystem::path& path, std::size_t max_bytes = std::size_t{64} << 20);

/// A number as text: the shortest that reads back as the same value. NaN is empty, infinities are "inf" and "-inf".
template <class T>
requires std::is_arithmetic_v<T> std::string number_text(T x) {
  if constexpr (std::is_same_v<T, bool>) {
    return x ? "1" : "0";
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(x)) return {};
    }
    char text[64];
    const auto end = std::to_chars(text, text + sizeof text, x);
    return {text, end.ptr};
  }
}

/// The names in a header row as a file has it: separated by commas, none of them quoted.
std::vector<std::string> csv_columns(std::string_view header);

/// Writes a CSV file with a header row; it appears whole at `commit`, or not at all. Numbers are the shortest that read
/// back equal; null (an empty optional) and NaN are empty fields; true and false are 1 and 0; text is quoted where it
/// must be. Throws `error` if a row has too few or too many fields, or the file cannot be written.
class csv_writer {
 public:
  csv_writer(const std::filesystem::path& path, std::vector<std::string> columns);

  /// Writes one row: a field for each column.
  template <class... Fields>
  void row(const Fields&... fields) {
    (add(fields), ...);
    end_row();
  }

  /// Adds one field to the row at hand: a number, a text, or an optional of one.
  template <class T>
  requires std::is_arithmetic_v<T> csv_writer& add(T x) { return append(number_text(x)); }
  csv_writer& add(std::string_view text) { return append(quoted(text)); }
  csv_writer& add(const char* text) { return add(std::string_view(text)); }
  csv_writer& add(const std::string& text) { return add(std::string_view(text)); }
  csv_writer& add(std::nullopt_t) { return append({}); }
  template <class T>
  csv_writer& add(const std::optional<T>& x) {
    return x ? add(*x) : append({});
  }

  /// Ends the row that `add` has filled.
  void end_row();

  /// Completes the file.
  void commit();

 private:
  static std::string quoted(std::string_view text);
  csv_writer& append(std::string_view text);

  atomic_file file_;
  std::vector<std::string> columns_;
  std::string line_;
  std::size_t fields_ = 0, rows_ = 0;  // row 0 is the header
};

}  // namespace qkgeom
