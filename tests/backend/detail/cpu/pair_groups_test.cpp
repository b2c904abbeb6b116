// SPDX-License-Identifier: MIT
#include "qkgeom/backend/detail/cpu/pair_groups.hpp"

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/linalg/symmetric.hpp"
#include "qkgeom/model/householder.hpp"
#include "tests/backend/detail/cpu/keys_at.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

template <class F>
void each_lane_is_the_sum_of_one_vector() {
  constexpr int L = cpu::lanes<F>;
  cpu::vec<F> x[L];
  for (int i = 0; i < L; ++i)
    for (int l = 0; l < L; ++l) x[i][l] = static_cast<F>(i * 100 + l);
  const auto sums = cpu::sum_of_each<F>(x);
  for (int i = 0; i < L; ++i) EXPECT_EQ(sums[i], static_cast<F>(i * 100 * L + L * (L - 1) / 2)) << i;
}

TEST(cpu_pair_groups, lanes_are_summed_apart) {
  each_lane_is_the_sum_of_one_vector<float>();
  each_lane_is_the_sum_of_one_vector<double>();
}

/// Documents of 1 to 200 keys at random positions below 1000, some of them shared.
struct keys {
  index_t d;
  std::vector<double> k;
  keys_by_document groups;

  explicit keys(index_t dim) : d(dim) {
    const random_stream s{.seed = 5};
    std::uint64_t next = 0;
    std::vector<std::vector<std::int32_t>> documents;
    for (const index_t n : {2, 16, 3, 64, 17, 1, 33, 200, 16}) {
      auto& t = documents.emplace_back();
      for (index_t i = 0; i < n; ++i) t.push_back(static_cast<std::int32_t>(s.uniform(next++) * 1000));
    }
    groups = test::keys_at(std::move(documents));
    for (std::size_t i = 0; i < groups.row.size() * static_cast<std::size_t>(d); ++i)
      k.push_back(3 + s.uniform(next++));
  }
};

enum class kind { diagonal, triangle, general };

/// Query buckets of 150 tokens; `after` tokens behind a query its window ends.
pair_problem problem_of(index_t dim, kind of, bool reflected, double window, std::uint64_t seed) {
  const random_stream s{.seed = seed};
  std::uint64_t next = 0;
  const auto d = static_cast<std::size_t>(dim);
  pair_problem p;
  if (reflected) {
    std::vector<double> direction;
    for (std::size_t c = 0; c < d; ++c) direction.push_back(s.uniform(next++) - 0.3);
    p.reflector = householder_reflector(direction);
  }
  for (index_t b = 0; b < 7; ++b) {
    score_distribution x;
    x.tau = 150 * static_cast<double>(b) + 75;
    x.before = 150 * b;
    if (window > 0) x.after = x.tau - window;
    if (b == 3) {  // a bucket without a model
      p.distributions.push_back(x);
      continue;
    }
    for (std::size_t c = 0; c < d; ++c) x.mean.push_back(s.uniform(next++) - 0.5);
    if (of == kind::diagonal)
      for (std::size_t c = 0; c < d; ++c) x.variance.push_back(s.uniform(next++));
    else {
      x.rank = of == kind::triangle ? dim : (dim + 1) / 2;
      const auto r = static_cast<std::size_t>(x.rank);
      x.factor.resize(d * r);
      for (std::size_t c = 0; c < r; ++c) {
        std::vector<double> column(d);
        for (std::size_t i = of == kind::triangle ? c : 0; i < d; ++i) column[i] = s.uniform(next++) - 0.5;
        column = reflect(p.reflector, column);
        for (std::size_t i = 0; i < d; ++i) x.factor[i * r + c] = column[i];
      }
    }
    p.distributions.push_back(x);
  }
  return p;
}

constexpr index_t cell = 90;

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double bound, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], bound * std::max(1.0, std::abs(b[i]))) << what << i;
}

/// All kinds of problems in one call, so that heatmaps which count the same pairs stand beside others.
void sums_are_those_of_the_definition(index_t d, pair_precision precision, const pair_weight& weight, double bound) {
  const keys x(d);
  std::vector<pair_problem> problems;
  std::uint64_t seed = 10;
  for (const double window : {0.0, 320.0})
    for (const kind of : {kind::diagonal, kind::triangle, kind::general})
      for (const bool reflected : {false, true}) problems.push_back(problem_of(d, of, reflected, window, seed++));
  problems.front().distributions.back().tau = 1500;  // wider heatmaps from here on, and other distances of this one
  problems.front().distributions.pop_back();
  const tensor_view<const double> k = packed_tensor(x.k.data(), static_cast<index_t>(x.groups.row.size()), 1, d);
  cpu_context one{{.threads = 1}}, three{{.threads = 3}};
  const auto sums = one.gaussian_pairs(k, x.groups, problems, {weight, precision, cell});
  const auto again = three.gaussian_pairs(k, x.groups, problems, {weight, precision, cell});
  for (std::size_t p = 0; p < problems.size(); ++p) {
    SCOPED_TRACE(p);
    const auto right = test::by_definition(k, x.groups, problems[p], weight, cell, sums[p].heatmap_width);
    expect_near(sums[p].sum, right.sum, bound, "sum");
    expect_near(sums[p].weight, right.weight, 1e-12, "weight");
    expect_near(sums[p].heatmap_sum, right.heatmap_sum, bound, "heatmap");
    expect_near(sums[p].heatmap_weight, right.heatmap_weight, 1e-12, "heatmap's weight");
    EXPECT_EQ(sums[p].sum, again[p].sum);
    EXPECT_EQ(sums[p].heatmap_sum, again[p].heatmap_sum);
    EXPECT_EQ(sums[p].heatmap_weight, again[p].heatmap_weight);
  }
}

TEST(cpu_pair_groups, sums_are_those_of_the_definition) {
  for (const index_t d : {1, 13, 40}) sums_are_those_of_the_definition(d, pair_precision::f64, {}, 1e-12);
  for (const index_t d : {5, 40}) sums_are_those_of_the_definition(d, pair_precision::f32, {}, 2e-6);
}

TEST(cpu_pair_groups, weighted_sums_are_those_of_the_definition) {
  const pair_weight weight = [](const key_pair& p) { return p.i % 3 == 0 ? 0.0 : 1.0 / static_cast<double>(p.j); };
  sums_are_those_of_the_definition(13, pair_precision::f64, weight, 1e-12);
}

TEST(cpu_pair_groups, a_triangle_that_was_reflected_is_one_again) {
  constexpr index_t d = 40;
  constexpr index_t L = cpu::lanes<double>;
  for (const bool reflected : {false, true}) {
    const auto problem = problem_of(d, kind::triangle, reflected, 0, 3);
    const cpu::factor_columns<double> factor(problem.distributions[0], problem.reflector, d);
    for (std::size_t b = 0; b < factor.first.size(); ++b)
      EXPECT_EQ(factor.first[b], static_cast<index_t>(b) * L) << reflected;
  }
  const auto general = problem_of(d, kind::general, true, 0, 3);
  const cpu::factor_columns<double> factor(general.distributions[0], general.reflector, d);
  for (const index_t first : factor.first) EXPECT_EQ(first, 0);
}

}  // namespace
