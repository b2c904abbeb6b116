// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "qkgeom/io/csv.hpp"

namespace qkgeom::python {

/// A table in memory, by columns. Null and NaN are null.
class table {
 public:
  using cell = table_field;
  struct column {
    std::string name;
    std::vector<cell> cells{};
    /// Index into `cell` of what the column holds; integers beside doubles count as these. 0: nulls alone.
    std::size_t kind = 0;
  };

  explicit table(const qkgeom::table& from) {
    for (const auto& c : from.columns) columns_.push_back({c.name});
    from.rows([&](const std::vector<cell>& fields) {
      for (std::size_t i = 0; i < fields.size(); ++i) {
        auto& c = columns_[i];
        const auto* number = std::get_if<double>(&fields[i]);
        c.kind = std::max(c.kind, fields[i].index());
        c.cells.push_back(number && std::isnan(*number) ? cell() : fields[i]);
      }
      ++rows_;
    });
  }

  std::size_t rows() const { return rows_; }
  const std::vector<column>& columns() const { return columns_; }

 private:
  std::vector<column> columns_;
  std::size_t rows_ = 0;
};

}  // namespace qkgeom::python
