// SPDX-License-Identifier: MIT
#include "examples/common/numbers/heterogeneity.hpp"

#include <algorithm>
#include <limits>

#include "qkgeom/report/columns.hpp"
#include "qkgeom/report/head_groups.hpp"
#include "qkgeom/stats/quantile.hpp"
#include "qkgeom/stats/shape.hpp"

namespace qkgeom::examples {
namespace {

/// A region of the context and the mean plasticity of every head there.
struct region {
  double start, end;
  head_values plasticity;

  region(const model_report& report, double from, double to)
      : start(from), end(to), plasticity(plasticity_between(report, from, to)) {}
};

head_spread spread_over_heads(const region& r, const std::vector<std::size_t>& heads) {
  const auto estimate = [&](auto&& statistic) {
    return estimate_over_heads({&r.plasticity}, heads, [&](index_t e, const std::vector<std::size_t>& in) {
      return statistic(r.plasticity.at(e, in));
    });
  };
  const auto share = [&](auto&& in) {
    return estimate([&](const std::vector<double>& x) {
      return x.empty() ? std::numeric_limits<double>::quiet_NaN()
                       : static_cast<double>(std::count_if(x.begin(), x.end(), in)) / static_cast<double>(x.size());
    });
  };
  head_spread s;
  s.start = r.start;
  s.end = r.end;
  s.heads = static_cast<index_t>(r.plasticity.at(-1, heads).size());
  s.mean = estimate([](const std::vector<double>& x) { return shape_of(x).mean; });
  s.deviation = estimate([](const std::vector<double>& x) { return shape_of(x).deviation; });
  s.bimodality = estimate([](const std::vector<double>& x) { return shape_of(x).bimodality; });
  s.share_high = share([](double v) { return v > led_by_content; });
  s.share_low = share([](double v) { return v < locked_to_position; });
  head_estimate* const quartiles[] = {&s.quartile1, &s.median, &s.quartile3};
  for (int i = 0; i < 3; ++i) {
    *quartiles[i] = estimate([&](const std::vector<double>& x) { return quantile(x, 0.25 * (i + 1)); });
    quartiles[i]->head_error = std::numeric_limits<double>::quiet_NaN();  // no jackknife: it leaps from head to head
  }
  return s;
}

}  // namespace

std::vector<heterogeneity_result> heterogeneity(const model_report& report) {
  std::vector<region> buckets;
  for (index_t b = 0; b < report.buckets.count(); ++b)
    buckets.emplace_back(report, static_cast<double>(report.buckets.start(b)),
                         static_cast<double>(report.buckets.end(b)));
  const double length = static_cast<double>(report.context_length);
  const region first(report, 0, 0.2 * length), last(report, 0.8 * length, length);
  std::vector<heterogeneity_result> results;
  for (const auto& [name, heads] : head_groups(report.heads)) {
    heterogeneity_result result{name, {}, spread_over_heads(first, heads), spread_over_heads(last, heads), {}};
    for (const auto& b : buckets) result.buckets.push_back(spread_over_heads(b, heads));
    result.convergence = estimate_over_heads(
        {&first.plasticity, &last.plasticity}, heads, [&](index_t e, const std::vector<std::size_t>& in) {
          const double early = shape_of(first.plasticity.at(e, in)).deviation;
          const double late = shape_of(last.plasticity.at(e, in)).deviation;
          return early > 0 ? late / early : std::numeric_limits<double>::quiet_NaN();
        });
    results.push_back(std::move(result));
  }
  return results;
}

qkgeom::table heterogeneity_table(const std::vector<heterogeneity_result>& results) {
  struct row {
    const heterogeneity_result* of;
    const char* region;
    const head_spread* spread;
    head_estimate convergence{};
  };
  table_columns<row> c;
  c.of(&row::of).add("group", group_meaning, &heterogeneity_result::group);
  c.add("region", "`bucket`: a query bucket; `first_20pct`, `last_20pct`: heads' means over that fifth", &row::region);
  add_stretch(c, "region", &row::spread);
  c.of(&row::spread)
      .add("heads", "number of heads that have a value there", &head_spread::heads)
      .add("mean", "mean over heads", &head_spread::mean)
      .add("sd", "standard deviation over heads, with n - 1", &head_spread::deviation)
      .add("share_above", "share of heads above 0.8", &head_spread::share_high)
      .add("share_below", "share of heads below 0.3", &head_spread::share_low)
      .add("bimodality", "(skewness^2 + 1) / (kurtosis + 3 (n-1)^2 / ((n-2)(n-3))); empty below four heads",
           &head_spread::bimodality);
  c.add("convergence", "sd in the last fifth over sd in the first; in the row `last_20pct` alone", &row::convergence);
  const auto add_quartile = [&](const char* name, const char* meaning, head_estimate head_spread::*value) {
    c.add(name, meaning, [value](auto& r) { return estimate{(r.spread->*value).value, (r.spread->*value).error}; });
  };
  add_quartile("q25", "first quartile over heads", &head_spread::quartile1);
  add_quartile("median", "median over heads", &head_spread::median);
  add_quartile("q75", "third quartile over heads", &head_spread::quartile3);
  return std::move(c).with_rows([&results](const auto& f) {
    for (const auto& r : results) {
      for (const auto& b : r.buckets) f(row{&r, "bucket", &b});
      f(row{&r, "first_20pct", &r.first20});
      f(row{&r, "last_20pct", &r.last20, r.convergence});
    }
  });
}

}  // namespace qkgeom::examples
