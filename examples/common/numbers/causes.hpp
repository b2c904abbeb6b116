// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/stats/shapley.hpp"
#include "examples/common/numbers/trajectory.hpp"

namespace qkgeom {

/// A number of some heads with all of several causes at work and with none, and what each cause adds: Shapley values,
/// whose sum is `change`, all less none.
struct cause_split {
  head_estimate all, none, change;
  std::vector<head_estimate> cause;
};

/// A number of every head of an analysis.
using number_of_heads = std::function<head_values(const trajectory_point&)>;

/// A column of heads.csv, or its absolute value.
inline number_of_heads column_number(const std::string& name) {
  return [name](const trajectory_point& p) { return p.column(name); };
}
inline number_of_heads absolute_column(const std::string& name) {
  return [name](const trajectory_point& p) {
    auto column = p.column(name);
    for (double& v : column.value) v = std::abs(v);
    for (auto& values : column.without)
      for (double& v : values) v = std::abs(v);
    return column;
  };
}

/// 1 for heads of a class, 0 for others: its mean is the class' share.
inline number_of_heads class_number(head_class wanted) {
  return [wanted](const trajectory_point& p) {
    const auto is = [&](const std::vector<head_class>& classes) {
      std::vector<double> values;
      for (const head_class c : classes) values.push_back(c == wanted ? 1 : 0);
      return values;
    };
    head_values share{"share_" + std::string(name_of(wanted)), is(p.classes), {}};
    for (const auto& classes : p.classes_without) share.without.push_back(is(classes));
    return share;
  };
}

/// The mean of a number over some heads, split by cause. `with` has the analysis with each set of n causes at work (2^n
/// of them, bit i of an index being cause i). Errors are over documents, left out of all analyses at once; there are
/// none if the analyses are not of the same documents. Throws `error` unless they have the same heads and columns.
inline cause_split split_by_cause(const std::vector<trajectory_point>& with, const number_of_heads& number,
                                  const std::vector<std::size_t>& group) {
  require(!with.empty(), "split_by_cause: there is no analysis");
  std::vector<head_values> values;
  bool paired = true;
  for (const auto& p : with) {
    check_comparable(with[0], p);
    values.push_back(number(p));
    paired = paired && p.blocks == with[0].blocks && values.back().without.size() == values[0].without.size();
  }
  const std::size_t replicates = paired ? values[0].without.size() : 0;
  // The mean over heads of a function of the 2^n values of a head.
  const auto mean_of = [&](auto&& f) {
    const auto of = [&](auto&& value) {
      std::vector<double> result, by_set(values.size());
      for (const std::size_t h : group) {
        for (std::size_t s = 0; s < values.size(); ++s) by_set[s] = value(values[s], h);
        result.push_back(f(by_set));
      }
      return result;
    };
    head_values combined{"", of([](const head_values& v, std::size_t h) { return v.value[h]; }), {}};
    for (std::size_t e = 0; e < replicates; ++e)
      combined.without.push_back(of([e](const head_values& v, std::size_t h) { return v.without[e][h]; }));
    return over_heads(combined, every_head(group), head_statistic::mean);
  };
  using list = std::vector<double>;
  cause_split split{mean_of([](const list& v) { return v.back(); }),
                    mean_of([](const list& v) { return v.front(); }),
                    mean_of([](const list& v) { return v.back() - v.front(); }),
                    {}};
  for (std::size_t i = 0; std::size_t{1} << i < values.size(); ++i)
    split.cause.push_back(mean_of([i](const list& v) { return shapley_values(v)[i]; }));
  return split;
}

}  // namespace qkgeom
