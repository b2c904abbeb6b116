// SPDX-License-Identifier: MIT

#include "tests/common/testing.hpp"

#pragma once

namespace qkgeom::test {

/// Distribution of (estimate - truth) / error over 200 seeds.
struct studentised {
  std::vector<double> values;
  void add(double estimate, double truth, double error) { values.push_back((estimate - truth) / error); }
  double mean() const {
    double sum = 0;
    for (const double v : values) sum += v;
    return sum / static_cast<double>(values.size());
  }
  double deviation() const {
    double square = 0;
    for (const double v : values) square += (v - mean()) * (v - mean());
    return std::sqrt(square / static_cast<double>(values.size() - 1));
  }
  /// Share within +- `quantile`.
  double covered(double quantile) const {
    double inside = 0;
    for (const double v : values) inside += std::fabs(v) < quantile;
    return inside / static_cast<double>(values.size());
  }
  /// `quantile`: that of 97.5 %, of the normal distribution if nothing else is said.
  void expect_honest(const char* what, double quantile = 1.959963984540054) const {
    SCOPED_TRACE(what);
    ASSERT_EQ(values.size(), 200u);
    EXPECT_LT(std::fabs(mean()), 0.25);
    EXPECT_GT(deviation(), 0.85);
    EXPECT_LT(deviation(), 1.15);
    EXPECT_GE(covered(quantile), 0.90);
    EXPECT_LE(covered(quantile), 0.98);
  }
};

}  // namespace qkgeom::test
