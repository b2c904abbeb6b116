// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"

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
QKGEOM_INLINE csv_table read_csv(const std::filesystem::path& path, std::size_t max_bytes = std::size_t{64} << 20);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/io/detail/csv_read.hpp"
#endif
