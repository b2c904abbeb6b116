// SPDX-License-Identifier: MIT
// Sums over pairs in small groups and in tiles, and their heatmaps, against every pair by the definition.
#include "qkgeom/adapt/eigen.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/backend/detail/cpu/pair_groups.hpp"
#include "qkgeom/backend/detail/cpu/pair_tiles.hpp"
#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/context/pair_formula.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/linalg/symmetric.hpp"
#include "qkgeom/model/householder.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

/// The keys of documents 0, 1, ... at these positions, which are sorted; key i is row i.
keys_by_document keys_at(std::vector<std::vector<std::int32_t>> documents) {
  keys_by_document groups;
  groups.offset.push_back(0);
  for (auto& t : documents) {
    std::sort(t.begin(), t.end());
    groups.position.insert(groups.position.end(), t.begin(), t.end());
    groups.document.push_back(static_cast<std::int32_t>(groups.document.size()));
    groups.offset.push_back(static_cast<index_t>(groups.position.size()));
  }
  groups.row.resize(groups.position.size());
  std::iota(groups.row.begin(), groups.row.end(), std::int64_t{0});
  return groups;
}

/// Sums over the keys k (n, 1, d) by the definition, pair by pair in f64; the heatmap has `width` cells of `cell`
/// tokens along each side.
pair_sums by_definition(const tensor_view<const double>& k, const keys_by_document& groups, const pair_problem& p,
                        const pair_weight& weight, index_t cell, index_t width) {
  auto s = backend::zero_sums(groups, p.distributions.size());
  s.heatmap_width = width;
  s.heatmap_sum.resize(static_cast<std::size_t>(width * width));
  s.heatmap_weight = s.heatmap_sum;
  for (index_t l = 0; l < s.distributions; ++l) {
    const auto& scores = p.distributions[l];
    for (index_t g = 0; g < s.groups && !scores.empty(); ++g) {
      const auto range = admissible(groups, g, scores);
      const index_t first = groups.offset[g];
      for (index_t j = range.begin + 1; j < range.end; ++j)
        for (index_t i = range.begin; i < j; ++i) {
          std::vector<double> delta;
          for (index_t c = 0; c < k.dim; ++c) delta.push_back(k.head(0)(first + i, c) - k.head(0)(first + j, c));
          const double m = dense::dot(scores.mean, delta);
          double v = 0;
          const auto reflected = reflect(p.reflector, delta);
          for (std::size_t c = 0; c < scores.variance.size(); ++c)
            v += scores.variance[c] * reflected[c] * reflected[c];
          if (scores.rank > 0) v += (as_eigen(scores.factor, scores.rank).transpose() * as_eigen(delta)).squaredNorm();
          const std::int32_t ti = groups.position[first + i], tj = groups.position[first + j];
          const auto document = static_cast<std::int32_t>(g);
          const key_pair pair{i - range.begin, j - range.begin, range.size(), ti, tj, document, document, scores.tau};
          const double w = weight ? weight(pair) : 1.0;
          s.sum[s.at(l, g)] += w * pair_plasticity(m, v);
          s.weight[s.at(l, g)] += w;
          const auto back =
              static_cast<index_t>(std::floor((scores.tau - 0.5 * (ti + tj)) / static_cast<double>(cell)));
          if (back < 0 || back >= width) continue;
          const auto at = static_cast<std::size_t>((tj - ti) / cell * width + back);
          s.heatmap_sum[at] += w * pair_plasticity(m, v);
          s.heatmap_weight[at] += w;
        }
    }
  }
  return s;
}

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
    groups = keys_at(std::move(documents));
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
    const auto right = by_definition(k, x.groups, problems[p], weight, cell, sums[p].heatmap_width);
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

constexpr index_t key_dim = 4, context_length = 131072;

/// Keys at the given positions of each document, of which some equal the key before them.
struct tile_keys {
  std::vector<double> k;
  keys_by_document groups;

  explicit tile_keys(std::vector<std::vector<std::int32_t>> documents) : groups(keys_at(std::move(documents))) {
    const random_stream s{.seed = 6};
    for (std::size_t i = 0; i < groups.row.size(); ++i)
      for (index_t c = 0; c < key_dim; ++c)
        k.push_back(i % 50 == 1 ? k[k.size() - key_dim] : s.uniform(static_cast<std::uint64_t>(k.size())));
  }
};

std::vector<std::int32_t> drawn_positions(index_t n, index_t length, std::uint64_t seed) {
  const random_stream s{.seed = seed};
  std::vector<std::int32_t> t;
  for (index_t i = 0; i < n; ++i)
    t.push_back(static_cast<std::int32_t>(s.uniform(static_cast<std::uint64_t>(i)) * static_cast<double>(length)));
  return t;
}

/// A query bucket at tau that admits the keys in (after, before).
score_distribution bucket_at(double tau, index_t before, double after = -1) {
  score_distribution x;
  x.mean = {0.5, -0.25, 0.125, 0.5};
  x.variance = {1, 0.5, 2, 0.25};
  x.tau = tau;
  x.before = before;
  x.after = after;
  return x;
}

void expect_plain_heatmap(const std::string& what, const tile_keys& of, std::vector<score_distribution> distributions,
                          index_t cell_width, const pair_weight& weight = {}) {
  SCOPED_TRACE(what);
  cpu_context ctx{{.threads = 2}};
  const auto k = packed_tensor(of.k.data(), of.groups.row.size(), 1, key_dim);
  const pair_problem problem{0, {}, std::move(distributions)};
  std::optional<pair_sums> plain;
  for (const auto precision : {pair_precision::f32, pair_precision::f64}) {
    const auto got = ctx.gaussian_pairs(k, of.groups, {problem}, {weight, precision, cell_width})[0];
    if (!plain) plain = by_definition(k, of.groups, problem, weight, cell_width, got.heatmap_width);
    ASSERT_EQ(got.heatmap_sum.size(), plain->heatmap_sum.size());
    ASSERT_GT(std::accumulate(got.pairs.begin(), got.pairs.end(), std::int64_t{0}), 100000);
    const double bound = precision == pair_precision::f32 ? 1e-5 : 1e-12;
    for (std::size_t c = 0; c < plain->heatmap_sum.size(); ++c) {
      const double weights = plain->heatmap_weight[c];
      ASSERT_EQ(got.heatmap_weight[c], weights) << "cell " << c;
      ASSERT_NEAR(got.heatmap_sum[c], plain->heatmap_sum[c], weights * bound) << "cell " << c;
    }
  }
}

TEST(cpu_pair_tiles, heatmaps_are_those_of_one_pair_after_the_other) {
  constexpr index_t everything = context_length, wide = 8192;
  const tile_keys drawn{{drawn_positions(4096, context_length, 1)}};
  expect_plain_heatmap("one document", drawn, {bucket_at(126976.3, everything)}, wide);
  expect_plain_heatmap("keys that the query does not see", drawn, {bucket_at(60000.5, everything)}, wide);
  expect_plain_heatmap("cells that are no power of two", drawn, {bucket_at(126976.3, everything)}, 1000);
  expect_plain_heatmap("query buckets and windows whose keys end inside a tile", drawn,
                       {bucket_at(50000, 40321), bucket_at(90000.7, 80123, 70017.5), bucket_at(120000, 110007, 2000)},
                       wide);
  expect_plain_heatmap("a weight", drawn, {bucket_at(126976.3, 100003)}, wide,
                       [](const key_pair& p) { return static_cast<double>((p.i + p.j) % 3); });
  expect_plain_heatmap("small documents beside large ones",
                       tile_keys{{drawn_positions(1500, context_length, 2), drawn_positions(40, context_length, 3),
                                  drawn_positions(900, 20000, 4), drawn_positions(70, context_length, 5)}},
                       {bucket_at(126976.3, everything), bucket_at(70000, 60000)}, wide);
}

TEST(cpu_pair_tiles, keys_at_one_position_share_a_cell) {
  constexpr index_t cell_width = 512;
  expect_plain_heatmap("few positions", tile_keys{{drawn_positions(2000, 700, 1)}}, {bucket_at(900.5, 800)}, 64);
  std::vector<std::int32_t> at_edges;  // and one token to either side
  for (index_t i = 0; i < 1200; ++i)
    at_edges.push_back(static_cast<std::int32_t>(i / 25 % 12 * cell_width + i % 3 + cell_width - 1));
  for (const double tau : {8192.0, 8192.5, 8191.75})
    expect_plain_heatmap("edges of cells", tile_keys{{at_edges}}, {bucket_at(tau, 8000)}, cell_width);
  expect_plain_heatmap("one token a cell", tile_keys{{drawn_positions(600, 300, 7)}}, {bucket_at(310, 305)}, 1);
}

}  // namespace
