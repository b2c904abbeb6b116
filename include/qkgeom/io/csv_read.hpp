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
#include "qkgeom/io/detail/csv_splitter.hpp"
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
  const std::vector<std::string>& column(std::string_view name) const {
    const auto it = std::find(columns_.begin(), columns_.end(), name);
    require(it != columns_.end(), where_, ": there is no column ", printable(name));
    return fields_[it - columns_.begin()];
  }
  /// A column of numbers; empty fields are NaN. Throws `error` naming file, column and row where a field is no number.
  std::vector<double> numbers(std::string_view name) const {
    std::vector<double> values;
    for (const auto& field : column(name)) {
      double x = std::numeric_limits<double>::quiet_NaN();
      const auto* const end = field.data() + field.size();
      const auto result = std::from_chars(field.data(), end, x);
      require(field.empty() || (result.ec == std::errc() && result.ptr == end), where_, ": column ", printable(name),
              " row ", values.size() + 1, " must be a number, not \"", printable(field), '"');
      values.push_back(x);
    }
    return values;
  }

  /// Adds a row. Throws `error` unless it has one field per column.
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

/// Reads a CSV file with a header row. Throws `error` naming the file and the line: a row with another number of
/// fields, a column named twice, an open quote, more than 4 million fields, a file above `max_bytes`.
inline csv_table read_csv(const std::filesystem::path& path, std::size_t max_bytes = std::size_t{64} << 20) {
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
