// SPDX-License-Identifier: MIT
#include "examples/common/numbers/causes.hpp"

#include <cmath>

#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/stats/shapley.hpp"

namespace qkgeom::examples {

number_of_heads column_number(const std::string& name) {
  return [name](const trajectory_point& p) { return p.column(name); };
}

number_of_heads absolute_column(const std::string& name) {
  return [name](const trajectory_point& p) {
    auto column = p.column(name);
    for (double& v : column.value) v = std::abs(v);
    for (auto& values : column.without)
      for (double& v : values) v = std::abs(v);
    return column;
  };
}

number_of_heads class_number(head_class wanted) {
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

cause_split split_by_cause(const std::vector<trajectory_point>& with, const number_of_heads& number,
                           const std::vector<std::size_t>& group) {
  require(!with.empty(), "split_by_cause: there is no analysis");
  std::vector<head_values> values;
  bool paired = true;
  for (const auto& p : with) {
    check_comparable(with[0], p);
    values.push_back(number(p));
    paired = paired && p.blocks == with[0].blocks && values.back().without.size() == values[0].without.size();
  }
  const auto replicates = paired ? static_cast<index_t>(values[0].without.size()) : 0;
  // The mean over heads of a function of the 2^n values of a head.
  const auto mean_of = [&](auto&& f) {
    const auto combined = [&](index_t left_out) {
      std::vector<double> result, by_set(values.size());
      for (const std::size_t h : group) {
        for (std::size_t s = 0; s < values.size(); ++s) by_set[s] = values[s].at(left_out)[h];
        result.push_back(f(by_set));
      }
      return result;
    };
    head_values number_of_group{"", combined(-1), {}};
    for (index_t e = 0; e < replicates; ++e) number_of_group.without.push_back(combined(e));
    return over_heads(number_of_group, every_head(group), head_statistic::mean);
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

}  // namespace qkgeom::examples
