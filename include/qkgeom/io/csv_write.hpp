// SPDX-License-Identifier: MIT
#pragma once

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

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom {

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
inline std::vector<std::string> csv_columns(std::string_view header) {
  std::vector<std::string> names;
  for (std::size_t from = 0, end = 0; end != header.npos; from = end + 1)
    names.emplace_back(header.substr(from, (end = header.find(',', from)) - from));
  return names;
}

/// Writes a CSV file with a header row; it appears whole at `commit`, or not at all. Numbers are the shortest that read
/// back equal; null (an empty optional) and NaN are empty fields; true and false are 1 and 0; text is quoted where it
/// must be. Throws `error` if a row has too few or too many fields, or the file cannot be written.
class csv_writer {
 public:
  csv_writer(const std::filesystem::path& path, std::vector<std::string> columns)
      : file_(path), columns_(std::move(columns)) {
    require(!columns_.empty(), "cannot write ", path.string(), ": a table needs at least one column");
    for (const auto& name : columns_) add(name);
    end_row();
  }

  /// Fills the first columns of every further row.
  void begin_rows_with(std::vector<std::string> fields) { first_fields_ = std::move(fields); }

  /// Writes one row: a field for each column that `begin_rows_with` does not fill.
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
  void end_row() {
    require(fields_ == columns_.size(), "cannot write ", file_.path().string(), ": row ", rows_, " has ", fields_,
            " fields for ", columns_.size(), " columns");
    line_ += '\n';
    file_.write(line_);
    line_.clear();
    fields_ = 0;
    ++rows_;
  }

  /// Completes the file.
  void commit() {
    require(fields_ == 0, "cannot write ", file_.path().string(), ": its last row is not ended");
    file_.commit();
  }

 private:
  static std::string quoted(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
    std::string in_quotes = "\"";
    for (const char c : text) in_quotes.append(c == '"' ? 2 : 1, c);
    return in_quotes + '"';
  }
  void put(std::string_view text) {
    if (fields_++ > 0) line_ += ',';
    line_ += text;
  }
  csv_writer& append(std::string_view text) {
    if (fields_ == 0)
      for (const auto& field : first_fields_) put(quoted(field));
    put(text);
    return *this;
  }

  atomic_file file_;
  std::vector<std::string> columns_, first_fields_{};
  std::string line_;
  std::size_t fields_ = 0, rows_ = 0;  // row 0 is the header
};

}  // namespace qkgeom
