// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "examples/training_dynamics/trajectory_changes.hpp"

namespace qkgeom {

namespace detail {

/// Jackknife over documents of `change(i, j)`, the change without block i of the first checkpoint's documents and
/// block j of the second's (-1: with all). Where both have the same blocks, these are left out of both at once; else
/// the checkpoints count as independent.
template <class Change>
estimate change_of(const trajectory_point& from, const trajectory_point& to, const Change& change) {
  const auto n = static_cast<index_t>(from.classes_without.size()), m = static_cast<index_t>(to.classes_without.size());
  const double whole = change(index_t{-1}, index_t{-1});
  std::vector<double> both, first, second;
  if (n == m && from.blocks == to.blocks) {
    for (index_t b = 0; b < n; ++b) both.push_back(change(b, b));
    return jackknife(whole, both);
  }
  for (index_t b = 0; b < n; ++b) first.push_back(change(b, index_t{-1}));
  for (index_t b = 0; b < m; ++b) second.push_back(change(index_t{-1}, b));
  auto sum = independent_difference(jackknife(whole, first), jackknife(whole, second));
  sum.value = whole;
  return sum;
}

inline const std::vector<double>& values_without(const head_values& column, index_t block) {
  return block < 0 ? column.value : column.without[block];
}
inline const std::vector<head_class>& classes_without(const trajectory_point& p, index_t block) {
  return block < 0 ? p.classes : p.classes_without[block];
}

inline bias_factors factors_of(const std::vector<double>& mu, const std::vector<double>& alpha,
                               const std::vector<std::size_t>& group, bool absolute) {
  bias_factors f;
  const double n = static_cast<double>(group.size());
  for (const std::size_t h : group) {
    f.mu += (absolute ? std::abs(mu[h]) : mu[h]) / n;
    f.alpha += (absolute ? std::abs(alpha[h]) : alpha[h]) / n;
    f.bias += (absolute ? std::abs(mu[h] * alpha[h]) : mu[h] * alpha[h]) / n;
  }
  f.covariance = f.bias / (f.mu * f.alpha);
  return f;
}

/// log |to / from| of bias, mu, alpha and covariance; all NaN where one of the factors is 0.
inline std::array<double, 4> log_change(const bias_factors& from, const bias_factors& to) {
  std::array<double, 4> change{std::log(std::abs(to.bias / from.bias)), std::log(std::abs(to.mu / from.mu)),
                               std::log(std::abs(to.alpha / from.alpha)),
                               std::log(std::abs(to.covariance / from.covariance))};
  for (const double x : change)
    if (!std::isfinite(x)) change.fill(std::numeric_limits<double>::quiet_NaN());
  return change;
}

}  // namespace detail

inline std::vector<class_transition> class_transitions(const trajectory_point& from, const trajectory_point& to,
                                                       const std::vector<std::size_t>& group) {
  check_comparable(from, to);
  std::vector<class_transition> table;
  for (const head_class a : all_head_classes)
    for (const head_class b : all_head_classes) {
      const auto share = [&](index_t i, index_t j) {
        const auto &before = detail::classes_without(from, i), &after = detail::classes_without(to, j);
        return share_of(group, [&](std::size_t h) { return before[h] == a && after[h] == b; });
      };
      class_transition t{a, b, 0, {share(-1, -1)}};
      for (const std::size_t h : group) t.heads += from.classes[h] == a && to.classes[h] == b;
      t.share.set_error(detail::change_of(from, to, share));
      t.share.head_error = share_error(t.share.value, group.size());
      table.push_back(t);
    }
  return table;
}

inline bias_split split_bias(const trajectory_point& from, const trajectory_point& to,
                             const std::vector<std::size_t>& group, bool absolute, bool per_context) {
  check_comparable(from, to);
  const std::string slope = per_context ? "alpha_k_context" : "alpha_k";
  const auto &mu_from = from.column("mu_q_a"), &alpha_from = from.column(slope);
  const auto &mu_to = to.column("mu_q_a"), &alpha_to = to.column(slope);
  const auto change = [&](index_t i, index_t j, const std::vector<std::size_t>& heads) {
    using detail::values_without;
    return detail::log_change(
        detail::factors_of(values_without(mu_from, i), values_without(alpha_from, i), heads, absolute),
        detail::factors_of(values_without(mu_to, j), values_without(alpha_to, j), heads, absolute));
  };
  bias_split split{absolute,
                   per_context,
                   detail::factors_of(mu_from.value, alpha_from.value, group, absolute),
                   detail::factors_of(mu_to.value, alpha_to.value, group, absolute),
                   {},
                   {},
                   {},
                   {}};
  head_estimate* const numbers[] = {&split.bias, &split.mu, &split.alpha, &split.covariance};
  const auto whole = change(-1, -1, group);
  std::vector<std::array<double, 4>> without_head;
  for (std::size_t left_out = 0; left_out < group.size(); ++left_out) {
    auto rest = group;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(left_out));
    without_head.push_back(change(-1, -1, rest));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    numbers[i]->value = whole[i];
    numbers[i]->set_error(detail::change_of(from, to, [&](index_t a, index_t b) { return change(a, b, group)[i]; }));
    std::vector<double> values;
    for (const auto& w : without_head) values.push_back(w[i]);
    numbers[i]->head_error = jackknife_error(values, 2);
  }
  return split;
}

}  // namespace qkgeom
