// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "examples/thesis/published.hpp"

namespace qkgeom::examples::thesis {

/// Two means printed with three decimals may differ by this much from rounding alone.
inline constexpr double printed_step = 0.001;

/// Rows of a table in an order.
struct table_rows {
  const named_table* table = nullptr;
  std::vector<std::size_t> index{};
};

/// The value of an expression: rows of a table, or by row a number, a condition (1, 0 or unknown) or a text.
struct value {
  enum class kind { numbers, condition, texts, rows };
  kind is = kind::numbers;
  std::vector<std::string> names{};    ///< of the rows; empty: no row, one value
  std::vector<std::string> entries{};  ///< of a profile, whose rows have several numbers
  std::vector<double> numbers{};       ///< row by row; NaN: unknown
  std::vector<std::string> texts{};
  table_rows rows{};

  std::size_t width() const { return entries.empty() ? 1 : entries.size(); }
  std::size_t height() const { return is == kind::texts ? texts.size() : numbers.size() / width(); }
  /// Names number i: its row, its entry of a profile, or both.
  std::string name_of(std::size_t i) const;
};

/// Applies the operator called `name`, such as mean or spearman. Throws `error` if there is none, or on arguments that
/// it does not take.
value apply_operator(std::string_view name, const std::vector<value>& arguments);

/// Combines numbers by + - * / < <= > >= = != ~ "and" "or", row by row and entry by entry; one value goes with all.
/// Compares texts by = and !=, where '...*' stands for all that begin so.
value combine(std::string_view sign, const value& left, const value& right);

}  // namespace qkgeom::examples::thesis
