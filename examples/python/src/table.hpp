// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "qkgeom/core/error.hpp"

namespace qkgeom::python {

/// A table in memory that the writers of tables fill as they fill a `csv_writer`. Null and NaN are null.
class table {
 public:
  using cell = std::variant<std::monostate, bool, std::int64_t, double, std::string>;
  struct column {
    std::string name;
    std::vector<cell> cells{};
    /// Index into `cell` of what the column holds; integers beside doubles count as these. 0: nulls alone.
    std::size_t kind = 0;
  };

  explicit table(const std::vector<std::string>& names) {
    for (const auto& n : names) columns_.push_back({n});
  }

  template <class T>
  requires std::is_arithmetic_v<T> table& add(T x) {
    if constexpr (std::is_same_v<T, bool>)
      return put(x);
    else if constexpr (std::is_integral_v<T>)
      return put(static_cast<std::int64_t>(x));
    else
      return std::isnan(x) ? put({}, 3) : put(static_cast<double>(x));
  }
  table& add(std::string_view text) { return put(std::string(text)); }
  table& add(const char* text) { return add(std::string_view(text)); }
  table& add(const std::string& text) { return add(std::string_view(text)); }
  table& add(std::nullopt_t) { return put({}); }
  template <class T>
  table& add(const std::optional<T>& x) {
    return x ? add(*x) : put({});
  }
  void end_row() {
    require(at_ == columns_.size(), "a row has ", at_, " fields for ", columns_.size(), " columns");
    at_ = 0;
    ++rows_;
  }
  template <class... Fields>
  void row(const Fields&... fields) {
    (add(fields), ...);
    end_row();
  }

  std::size_t rows() const { return rows_; }
  const std::vector<column>& columns() const { return columns_; }

 private:
  table& put(cell x) {
    const auto kind = x.index();
    return put(std::move(x), kind);
  }
  table& put(cell x, std::size_t kind) {
    auto& c = columns_.at(at_++);
    c.kind = std::max(c.kind, kind);
    c.cells.push_back(std::move(x));
    return *this;
  }

  std::vector<column> columns_;
  std::size_t at_ = 0, rows_ = 0;
};

}  // namespace qkgeom::python
