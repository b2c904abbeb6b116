// SPDX-License-Identifier: MIT
#include "examples/dynamics/trajectory_changes.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/head_groups.hpp"

namespace qkgeom::examples {
namespace {

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

const std::vector<head_class>& classes_without(const trajectory_point& p, index_t block) {
  return block < 0 ? p.classes : p.classes_without[block];
}

bias_factors factors_of(const std::vector<double>& mu, const std::vector<double>& alpha,
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
std::array<double, 4> log_change(const bias_factors& from, const bias_factors& to) {
  std::array<double, 4> change{std::log(std::abs(to.bias / from.bias)), std::log(std::abs(to.mu / from.mu)),
                               std::log(std::abs(to.alpha / from.alpha)),
                               std::log(std::abs(to.covariance / from.covariance))};
  for (const double x : change)
    if (!std::isfinite(x)) change.fill(std::numeric_limits<double>::quiet_NaN());
  return change;
}

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> checkpoint_steps(const std::vector<trajectory_point>& points) {
  std::vector<std::pair<std::size_t, std::size_t>> steps;
  for (std::size_t i = 1; i < points.size(); ++i) steps.emplace_back(i - 1, i);
  if (points.size() > 2) steps.emplace_back(0, points.size() - 1);
  return steps;
}

std::vector<class_transition> class_transitions(const trajectory_point& from, const trajectory_point& to,
                                                const std::vector<std::size_t>& group) {
  check_comparable(from, to);
  std::vector<class_transition> table;
  for (const head_class a : all_head_classes)
    for (const head_class b : all_head_classes) {
      const auto share = [&](index_t i, index_t j) {
        const auto &before = classes_without(from, i), &after = classes_without(to, j);
        return share_of(group, [&](std::size_t h) { return before[h] == a && after[h] == b; });
      };
      class_transition t{a, b, 0, {share(-1, -1)}};
      for (const std::size_t h : group) t.heads += from.classes[h] == a && to.classes[h] == b;
      t.share.set_error(change_of(from, to, share));
      t.share.head_error = share_error(t.share.value, group.size());
      table.push_back(t);
    }
  return table;
}

bias_split split_bias(const trajectory_point& from, const trajectory_point& to, const std::vector<std::size_t>& group,
                      bool absolute, bool per_context) {
  check_comparable(from, to);
  const std::string slope = per_context ? "alpha_k_context" : "alpha_k";
  const auto &mu_from = from.column("mu_q_a"), &alpha_from = from.column(slope);
  const auto &mu_to = to.column("mu_q_a"), &alpha_to = to.column(slope);
  const auto change = [&](index_t i, index_t j, const std::vector<std::size_t>& heads) {
    return log_change(factors_of(mu_from.at(i), alpha_from.at(i), heads, absolute),
                      factors_of(mu_to.at(j), alpha_to.at(j), heads, absolute));
  };
  bias_split split{absolute,
                   per_context,
                   factors_of(mu_from.value, alpha_from.value, group, absolute),
                   factors_of(mu_to.value, alpha_to.value, group, absolute),
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
    numbers[i]->set_error(change_of(from, to, [&](index_t a, index_t b) { return change(a, b, group)[i]; }));
    std::vector<double> values;
    for (const auto& w : without_head) values.push_back(w[i]);
    numbers[i]->head_error = jackknife_error(values, 2);
  }
  return split;
}

void write_trajectory_csv(const std::filesystem::path& path, const std::vector<trajectory_point>& points) {
  for (const auto& p : points) check_comparable(points.at(0), p);
  std::vector<std::string> names{"step", "checkpoint", "group", "heads", "context_length", "documents", "heldout_loss"};
  for (const head_class c : all_head_classes) add_head_estimate_names(names, "share_" + std::string(name_of(c)));
  for (const auto& column : points.at(0).columns)
    for (const head_statistic s : all_head_statistics)
      add_head_estimate_names(names, column.name + "_" + std::string(name_of(s)));
  csv_writer csv(path, names);
  for (std::size_t i = 0; i < points.size(); ++i)
    for (const auto& [name, group] : head_groups(points[i].heads)) {
      csv.add(i).add(points[i].label).add(name).add(group.size()).add(points[i].context_length);
      csv.add(points[i].blocks.document.size()).add(points[i].heldout_loss);
      for (const head_class c : all_head_classes) add_estimate(csv, class_share(points[i], group, c).estimate());
      for (const auto& column : points[i].columns)
        for (const head_statistic s : all_head_statistics) add_estimate(csv, over_heads(column, group, s));
      csv.end_row();
    }
  csv.commit();
}

void write_transitions_csv(const std::filesystem::path& path, const std::vector<trajectory_point>& points) {
  csv_writer csv(
      path, {"from", "to", "group", "from_class", "to_class", "heads", "share", "share_error", "share_head_error"});
  for (const auto& [i, j] : checkpoint_steps(points))
    for (const auto& [name, group] : head_groups(points[i].heads))
      for (const auto& t : class_transitions(points[i], points[j], group))
        csv.row(points[i].label, points[j].label, name, name_of(t.from), name_of(t.to), t.heads, t.share.value,
                t.share.error, t.share.head_error);
  csv.commit();
}

void write_bias_split_csv(const std::filesystem::path& path, const std::vector<trajectory_point>& points) {
  std::vector<std::string> names{"from", "to", "group", "means", "unit"};
  for (const char* end : {"from", "to"})
    for (const char* factor : {"bias_", "mu_q_a_", "alpha_k_", "covariance_factor_"})
      names.push_back(std::string(factor) + end);
  for (const char* part : {"log_bias", "log_mu_q_a", "log_alpha_k", "log_covariance"})
    add_head_estimate_names(names, part);
  csv_writer csv(path, names);
  for (const auto& [i, j] : checkpoint_steps(points))
    for (const auto& [name, group] : head_groups(points[i].heads))
      for (const bool absolute : {false, true})
        for (const bool per_context : {false, true}) {
          const auto s = split_bias(points[i], points[j], group, absolute, per_context);
          csv.add(points[i].label).add(points[j].label).add(name).add(absolute ? "absolute" : "signed");
          csv.add(per_context ? "context" : "token");
          for (const auto* f : {&s.from, &s.to}) csv.add(f->bias).add(f->mu).add(f->alpha).add(f->covariance);
          for (const auto* e : {&s.bias, &s.mu, &s.alpha, &s.covariance}) add_estimate(csv, *e);
          csv.end_row();
        }
  csv.commit();
}

}  // namespace qkgeom::examples
