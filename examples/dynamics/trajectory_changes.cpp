// SPDX-License-Identifier: MIT
#include "examples/dynamics/trajectory.hpp"

#include <array>
#include <cmath>
#include <limits>

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

qkgeom::table trajectory_table(const std::vector<trajectory_point>& points) {
  for (const auto& p : points) check_comparable(points.at(0), p);
  struct row {
    std::size_t step;
    const trajectory_point* point;
    std::string group;
    std::vector<std::size_t> heads;
  };
  table_columns<row> c;
  c.add("step", "number of the checkpoint in training order, from 0", &row::step);
  c.of(&row::point).add("checkpoint", "label of the checkpoint", &trajectory_point::label);
  c.add("group", group_meaning, &row::group);
  c.add("heads", "number of heads in the group", [](auto& r) { return r.heads.size(); });
  c.of(&row::point)
      .add("context_length", "length L of the context, tokens", &trajectory_point::context_length)
      .add("documents", "number of documents whose rows or moments count",
           [](auto& p) { return p.blocks.document.size(); })
      .add("heldout_loss", "loss of `--loss`; empty where unknown", &trajectory_point::heldout_loss);
  for (const head_class k : all_head_classes) {
    const std::string name(name_of(k));
    c.add("share_" + name, "share of heads of the class " + name,
          [k](auto& r) { return class_share(*r.point, r.heads, k).estimate(); });
  }
  const char* const meanings[] = {"mean over heads of ", "mean over heads of the absolute value of ",
                                  "median over heads of "};
  for (std::size_t i = 0; i < points.at(0).columns.size(); ++i)
    for (const head_statistic s : all_head_statistics)
      c.add(points[0].columns[i].name + "_" + std::string(name_of(s)),
            meanings[static_cast<int>(s)] + points[0].columns[i].name,
            [i, s](auto& r) { return over_heads(r.point->columns[i], r.heads, s); });
  return std::move(c).with_rows([&points](const auto& f) {
    for (std::size_t i = 0; i < points.size(); ++i)
      for (const auto& [name, group] : head_groups(points[i].heads)) f(row{i, &points[i], name, group});
  });
}

namespace {

/// Columns of rows that belong to a step `from`, `to` of checkpoints and a group of heads.
template <class Row>
table_columns<Row> step_columns() {
  table_columns<Row> c;
  c.add("from", "label of the earlier checkpoint", &Row::from).add("to", "label of the later checkpoint", &Row::to);
  c.add("group", group_meaning, &Row::group);
  return c;
}

/// Calls f(earlier, later, group) for each.
template <class F>
void each_step(const std::vector<trajectory_point>& points, const F& f) {
  for (const auto& [i, j] : checkpoint_steps(points))
    for (const auto& group : head_groups(points[i].heads)) f(points[i], points[j], group);
}

}  // namespace

qkgeom::table transitions_table(const std::vector<trajectory_point>& points) {
  struct row {
    std::string from, to, group;
    class_transition transition;
  };
  auto c = step_columns<row>();
  c.of(&row::transition)
      .add("from_class", "class at the earlier checkpoint", [](auto& t) { return name_of(t.from); })
      .add("to_class", "class at the later checkpoint", [](auto& t) { return name_of(t.to); })
      .add("heads", "number of heads that went from one to the other", &class_transition::heads)
      .add("share", "share of the group's heads", &class_transition::share);
  return std::move(c).with_rows([&points](const auto& f) {
    each_step(points, [&](const auto& from, const auto& to, const auto& group) {
      for (const auto& t : class_transitions(from, to, group.heads)) f(row{from.label, to.label, group.name, t});
    });
  });
}

qkgeom::table bias_split_table(const std::vector<trajectory_point>& points) {
  struct row {
    std::string from, to, group;
    bias_split split;
  };
  auto c = step_columns<row>();
  const auto of = c.of(&row::split);
  of.add("means", "means over heads: `signed`, or of `absolute` values",
         [](auto& s) { return s.absolute ? "absolute" : "signed"; });
  of.add("unit", "`token`, or `context`: alpha_K times L", [](auto& s) { return s.per_context ? "context" : "token"; });
  for (const bool later : {false, true}) {
    const auto add = [&](const char* name, const char* meaning, double bias_factors::*factor) {
      of.add(name + std::string(later ? "_to" : "_from"),
             meaning + std::string(later ? "later" : "earlier") + " checkpoint",
             [=](auto& s) { return (later ? s.to : s.from).*factor; });
    };
    add("bias", "mean bias, mu_q_a times alpha_k times covariance_factor, at the ", &bias_factors::bias);
    add("mu_q_a", "mean mu_q_a at the ", &bias_factors::mu);
    add("alpha_k", "mean alpha_k at the ", &bias_factors::alpha);
    add("covariance_factor", "factor by which heads with a large mu_q_a have a large alpha_k, at the ",
        &bias_factors::covariance);
  }
  of.add("log_bias", "natural log of the ratio of the biases' sizes, the sum of the next three", &bias_split::bias);
  of.add("log_mu_q_a", "log of the ratio of mu_q_a; empty where a factor is 0", &bias_split::mu);
  of.add("log_alpha_k", "log of the ratio of alpha_k; empty where a factor is 0", &bias_split::alpha);
  of.add("log_covariance", "log of the ratio of covariance_factor; empty where a factor is 0", &bias_split::covariance);
  return std::move(c).with_rows([&points](const auto& f) {
    each_step(points, [&](const auto& from, const auto& to, const auto& group) {
      for (const bool absolute : {false, true})
        for (const bool per_context : {false, true})
          f(row{from.label, to.label, group.name, split_bias(from, to, group.heads, absolute, per_context)});
    });
  });
}

}  // namespace qkgeom::examples
