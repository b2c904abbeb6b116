// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom {

/// A CSV table by columns. Fields are text as they stand in the file, without quotes.
class csv_table {
 public:
  csv_table(std::string where, std::vector<std::string> columns)
      : where_(std::move(where)), columns_(std::move(columns)), fields_(columns_.size()) {}

  const std::vector<std::string>& columns() const { return columns_; }
  std::size_t rows() const { return fields_.empty() ? 0 : fields_.front().size(); }
  bool has(std::string_view name) const { return std::find(columns_.begin(), columns_.end(), name) != columns_.end(); }

  /// Fields of a column. Throws `error` naming the file if there is no such column.
  const std::vector<std::string>& column(std::string_view name) const {
    const auto it = std::find(columns_.begin(), columns_.end(), name);
    require(it != columns_.end(), where_, ": there is no column ", name);
    return fields_[it - columns_.begin()];
  }
  /// A column of numbers; empty fields are NaN. Throws `error` naming file, column and row at what is no number.
  std::vector<double> numbers(std::string_view name) const {
    std::vector<double> values;
    for (const auto& field : column(name)) {
      double x = std::numeric_limits<double>::quiet_NaN();
      const auto* const end = field.data() + field.size();
      const auto result = std::from_chars(field.data(), end, x);
      require(field.empty() || (result.ec == std::errc() && result.ptr == end), where_, ": column ", name, " row ",
              values.size() + 1, " must be a number, not \"", printable(field), '"');
      values.push_back(x);
    }
    return values;
  }

  /// Adds a row. Throws unless it has a field a column.
  void add_row(std::vector<std::string> fields) {
    require(fields.size() == columns_.size(), where_, ": a row of ", fields.size(), " fields for ", columns_.size(),
            " columns");
    for (std::size_t i = 0; i < fields_.size(); ++i) fields_[i].push_back(std::move(fields[i]));
  }

 private:
  std::string where_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> fields_;
};

namespace detail {

/// Splits CSV text into rows, RFC 4180: quoted fields may hold commas, quotes (doubled) and line ends.
class csv_splitter {
 public:
  csv_splitter(std::string_view text, const std::string& where) : text_(text), where_(where) {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") text_.remove_prefix(3);  // the byte order mark of spreadsheets
  }

  bool more() const { return at_ < text_.size(); }
  std::size_t line() const { return line_; }

  std::vector<std::string> next_row() {
    std::vector<std::string> fields(1);
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"' && fields.back().empty()) {
        quoted(fields.back());
      } else if (c == ',') {
        fields.emplace_back();
      } else if (c == '\n' || (c == '\r' && at_ < text_.size() && text_[at_] == '\n')) {
        at_ += c == '\r';
        ++line_;
        break;
      } else {
        fields.back() += c;
      }
    }
    return fields;
  }

 private:
  void quoted(std::string& field) {
    const std::size_t start = line_;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"' && (at_ == text_.size() || text_[at_] != '"')) return;
      at_ += c == '"';
      line_ += c == '\n';
      field += c;
    }
    fail(where_, ": the quote opened in line ", start, " is never closed");
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0, line_ = 1;
};

}  // namespace detail

/// Reads a CSV file with a header row. Throws `error` naming the file and the line: a row with another number of
/// fields, a column named twice, an open quote, a file above `max_bytes`.
inline csv_table read_csv(const std::filesystem::path& path, std::size_t max_bytes = std::size_t{1} << 30) {
  const std::string where = path.string(), text = read_text(path, max_bytes);
  detail::csv_splitter rows(text, where);
  require(rows.more(), where, ": the file is empty, a CSV file starts with its column names");
  const auto columns = rows.next_row();
  require(std::set<std::string>(columns.begin(), columns.end()).size() == columns.size(), where,
          ": two columns have the same name");
  csv_table table(where, columns);
  while (rows.more()) {
    const std::size_t line = rows.line();
    auto fields = rows.next_row();
    require(fields.size() == columns.size(), where, ": line ", line, " has ", fields.size(), " fields for ",
            columns.size(), " columns");
    table.add_row(std::move(fields));
  }
  return table;
}

}  // namespace qkgeom
