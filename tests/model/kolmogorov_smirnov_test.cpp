// SPDX-License-Identifier: MIT
#include "qkgeom/model/kolmogorov_smirnov.hpp"

#include <gtest/gtest.h>

#include <string>

#include "qkgeom/io/csv.hpp"

namespace {

using namespace qkgeom;

TEST(kolmogorov_smirnov, p_agrees_with_scipy) {
  const auto table = read_csv(std::string(QKGEOM_TEST_DATA) + "/kolmogorov.csv");  // made by make_kolmogorov_table.py
  const auto n = table.numbers("n"), distance = table.numbers("distance"), p = table.numbers("p");
  EXPECT_GT(table.rows(), 300u);
  for (std::size_t i = 0; i < table.rows(); ++i)
    EXPECT_NEAR(kolmogorov_smirnov_p(static_cast<index_t>(n[i]), distance[i]) / p[i], 1, p[i] < 0.1 ? 2e-4 : 1e-3)
        << n[i] << ' ' << distance[i];
}

TEST(kolmogorov_smirnov, p_of_one_value_is_its_closed_form) {
  for (const double d : {0.5, 0.55, 0.8, 0.96, 0.999}) EXPECT_NEAR(kolmogorov_smirnov_p(1, d), 2 * (1 - d), 1e-12);
  EXPECT_EQ(kolmogorov_smirnov_p(7, 0), 1);
  EXPECT_EQ(kolmogorov_smirnov_p(7, 1), 0);
  EXPECT_THROW(kolmogorov_smirnov_p(0, 0.5), error);
}

TEST(kolmogorov_smirnov, p_falls_with_the_distance_across_the_methods) {
  for (const index_t n : {5, 64, 128, 129, 500, 3000}) {
    double before = 1;
    for (double d = 0.4 / static_cast<double>(n); d < 1; d *= 1.01) {
      const double p = kolmogorov_smirnov_p(n, d);
      EXPECT_LE(p, before * (1 + 2e-4)) << n << " " << d;
      before = p;
    }
  }
}

}  // namespace
