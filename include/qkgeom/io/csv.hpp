// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom {

/// A CSV table by columns. Fields are text without its quotes.
class csv_table {
 public:
  const std::vector<std::string>& columns() const { return columns_; }
  std::size_t rows() const { return fields_.empty() ? 0 : fields_.front().size(); }
  bool has(std::string_view name) const { return std::find(columns_.begin(), columns_.end(), name) != columns_.end(); }

  /// Returns the fields of a column. Throws `error` naming the file if there is no such column.
  const std::vector<std::string>& column(std::string_view name) const;
  /// Returns a column of numbers; empty fields are NaN. Throws `error` naming file, column and row of any other text.
  std::vector<double> numbers(std::string_view name) const;

 private:
  friend csv_table read_csv(const std::filesystem::path& path, std::size_t max_bytes);

  csv_table(std::string where, std::vector<std::string> columns)
      : where_(std::move(where)), columns_(std::move(columns)), fields_(columns_.size()) {}

  std::string where_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> fields_;
};

/// Reads a CSV file with a header row. Throws `error` naming the file and the line: a row with another number of
/// fields, a column named twice, an open quote, more than 4 million fields, a file above `max_bytes`.
csv_table read_csv(const std::filesystem::path& path, std::size_t max_bytes = std::size_t{64} << 20);

/// Writes a number as the shortest text that reads back equal. NaN is empty, infinities are "inf" and "-inf".
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

/// Splits a header row: names separated by commas, without quotes.
std::vector<std::string> csv_columns(std::string_view header);

/// Writes a CSV file with a header row, whole at `commit` or not at all. Numbers are the shortest text that reads back
/// equal; null (an empty optional) and NaN are empty fields; true and false are 1 and 0; text is quoted if needed.
/// Throws `error` if a row has too few or too many fields, or the file cannot be written.
class csv_writer {
 public:
  csv_writer(const std::filesystem::path& path, std::vector<std::string> columns);

  /// Writes one row: a field for each column.
  template <class... Fields>
  void row(const Fields&... fields) {
    (add(fields), ...);
    end_row();
  }

  /// Adds one field to the current row: a number, a text, or an optional of one.
  template <class T>
  requires std::is_arithmetic_v<T> csv_writer& add(T x) { return append(number_text(x)); }
  csv_writer& add(std::string_view text) { return append(quoted(text)); }
  csv_writer& add(std::nullopt_t) { return append({}); }
  template <class T>
  csv_writer& add(const std::optional<T>& x) {
    return x ? add(*x) : append({});
  }

  /// Ends the row of the added fields.
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

/// A field of a table: null, a truth value, a whole number, a number or a text. NaN counts as null.
using table_field = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

/// Converts a value to a field: a number, a text, or an optional of one.
template <class T>
table_field field_of(const T& x) {
  if constexpr (std::is_same_v<T, table_field>)
    return x;
  else if constexpr (requires { x.has_value(); })
    return x ? field_of(*x) : table_field();
  else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, double>)
    return x;
  else if constexpr (std::integral<T>)
    return static_cast<std::int64_t>(x);
  else
    return std::string(x);
}

/// Returns the index in `table_field` of what a T becomes: `field_of` it, or the value of an estimate.
template <class T>
consteval std::size_t field_index() {
  if constexpr (requires(T x) { x.has_value(); })
    return field_index<typename T::value_type>();
  else if constexpr (requires(T x) { x.error; } || std::is_same_v<T, double> || std::is_same_v<T, table_field>)
    return 3;
  else
    return std::is_same_v<T, bool> ? 1 : std::integral<T> ? 2 : 4;
}

/// A column's name, the meaning of its values with the unit, and their type, whatever the values are.
struct column_text {
  std::string name, meaning;
  std::size_t type = 3;         ///< index in `table_field`; whole numbers may stand among numbers
  bool may_be_missing = false;  ///< values are optional
};

/// A table: its columns, and its rows one by one.
struct table {
  std::vector<column_text> columns;
  /// Calls `row(fields)` for each row, a field per column.
  std::function<void(const std::function<void(const std::vector<table_field>&)>& row)> rows;
};

/// Builds the columns of a table with one `Row` per row.
template <class Row>
class table_columns {
 public:
  /// Adds the column NAME of `value(row)`; for an estimate also the columns NAME_error and, over heads,
  /// NAME_head_error.
  template <class Value>
  table_columns& add(const std::string& name, std::string meaning, Value value) {
    using result = std::decay_t<std::invoke_result_t<Value, const Row&>>;
    constexpr bool may_be_missing = requires(result e) { e.has_value(); };
    columns_.push_back({name, std::move(meaning), field_index<result>(), may_be_missing});
    if constexpr (requires(result e) { e.error; })
      columns_.push_back({name + "_error", "standard error of " + name + " over documents"});
    if constexpr (requires(result e) { e.head_error; })
      columns_.push_back({name + "_head_error", "standard error of " + name + " as heads drawn from many"});
    put_.push_back([value = std::move(value)](const Row& row, std::vector<table_field>& fields) {
      const auto& x = std::invoke(value, row);
      if constexpr (requires { x.error; }) {
        fields.push_back(x.value);
        fields.push_back(x.error);
        if constexpr (requires { x.head_error; }) fields.push_back(x.head_error);
      } else {
        fields.push_back(field_of(x));
      }
    });
    return *this;
  }

  /// Adds the columns of a list, each with a name, a meaning and a value.
  template <class List>
  table_columns& add_all(const List& list) {
    for (const auto& c : list) add(c.name, c.meaning, c.value);
    return *this;
  }

  /// Returns what adds columns of `part(row)`, a value or a pointer: `c.of(&row::head).add("layer", "number of the
  /// layer", &head::layer)`.
  template <class Part>
  auto of(Part part) {
    return part_columns<Part>{*this, std::move(part)};
  }

  /// Returns the table with a row for each element of the list, which must outlive the table.
  table with_rows(const std::vector<Row>& list) && {
    return std::move(*this).with_rows([&list](const auto& f) {
      for (const Row& row : list) f(row);
    });
  }
  /// Returns the table of the rows that `each(f)` passes to f. References inside `each` must outlive the table.
  template <class Each>
  table with_rows(Each each) && {
    return {std::move(columns_), [put = std::move(put_), each = std::move(each)](const auto& row) {
              std::vector<table_field> fields;
              each([&](const Row& r) {
                fields.clear();
                for (const auto& p : put) p(r, fields);
                row(fields);
              });
            }};
  }

 private:
  template <class Part>
  struct part_columns {
    table_columns& all;
    Part part;

    template <class Value>
    const part_columns& add(const std::string& name, std::string meaning, Value value) const {
      all.add(name, std::move(meaning), [part = part, value = std::move(value)](const Row& row) {
        const auto& x = std::invoke(part, row);
        if constexpr (std::is_pointer_v<std::decay_t<decltype(x)>>)
          return std::invoke(value, *x);
        else
          return std::invoke(value, x);
      });
      return *this;
    }
    template <class List>
    const part_columns& add_all(const List& list) const {
      for (const auto& c : list) add(c.name, c.meaning, c.value);
      return *this;
    }
  };

  std::vector<column_text> columns_;
  std::vector<std::function<void(const Row&, std::vector<table_field>&)>> put_;
};

/// Writes a table as a CSV file, which appears whole or not at all (see `csv_writer`).
void write_csv(const std::filesystem::path& path, const table& t);

/// Writes a table as the CSV file `name` of a folder, and what its columns mean to the folder's columns.csv, which
/// keeps the columns of its other files.
void write_csv(const std::filesystem::path& folder, const std::string& name, const table& t);

}  // namespace qkgeom
