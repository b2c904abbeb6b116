// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <vector>

#include "examples/common/numbers/head_values.hpp"

namespace qkgeom::examples {

/// A number of some heads with all of several causes at work and with none, and what each cause adds: Shapley values,
/// whose sum is `change`, all less none.
struct cause_split {
  head_estimate all, none, change;
  std::vector<head_estimate> cause;
};

/// A number of every head of an analysis.
using number_of_heads = std::function<head_values(const trajectory_point&)>;

/// A column of heads.csv, or its absolute value.
number_of_heads column_number(const std::string& name);
number_of_heads absolute_column(const std::string& name);
/// 1 for heads of a class, 0 for others: its mean is the class' share.
number_of_heads class_number(head_class wanted);

/// The mean of a number over some heads, split by cause. `with` has the analysis with each set of n causes at work (2^n
/// of them, bit i of an index being cause i). Errors are over documents, left out of all analyses at once; there are
/// none if the analyses are not of the same documents. Throws `error` unless they have the same heads and columns.
cause_split split_by_cause(const std::vector<trajectory_point>& with, const number_of_heads& number,
                           const std::vector<std::size_t>& group);

}  // namespace qkgeom::examples
