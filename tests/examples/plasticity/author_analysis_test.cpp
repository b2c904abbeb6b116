// SPDX-License-Identifier: MIT
// The tables of plasticity --preset against what attention-plasticity itself printed for the same captures
// (tests/data/golden/README.md). Its tool samples pairs, ours takes all: those columns agree within the sampling error.
#include "examples/plasticity/author_analysis.hpp"

#include <nlohmann/json.hpp>

#include "qkgeom/context/pair_formula.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/householder.hpp"
#include "tests/common/data_files.hpp"
#include "tests/common/on_cpu.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom::examples {
namespace {
using nlohmann::json;
using test::ctx;

class author : public testing::TestWithParam<test::golden_case> {
 protected:
  void SetUp() override {
    source_.emplace(capture_set::open({test::golden(GetParam().capture + ".safetensors")}));
    answers_ = json::parse(std::ifstream(test::golden(GetParam().answers + ".json")));
    const auto grid = author_buckets(source_->manifest());
    buckets_ = grid.edges;
    EXPECT_EQ(grid.first, 0);
    auto all = author_analysis(ctx, *source_, buckets_, {}, [](index_t) {});
    for (auto& h : all)
      if (answers_of(h)) heads_.push_back(std::move(h));
    ASSERT_EQ(heads_.size(), answers_.at("heads").size());
  }
  const json* answers_of(const author_head& h) const {
    for (const auto& a : answers_.at("heads"))
      if (a.at("layer") == h.layer && a.at("query_head") == h.q_head) return &a;
    return nullptr;
  }
  std::string golden(const std::string& table) const {
    return test::golden("author-" + GetParam().answers + "." + table + ".csv");
  }

  std::optional<capture_set> source_;
  json answers_;
  bucket_edges buckets_;
  std::vector<author_head> heads_;
};

TEST_P(author, head_metrics_equal_the_tool) {
  const auto got = test::written(head_metrics_table(heads_)), want = read_csv(golden("head_metrics"));
  ASSERT_EQ(got.columns(), want.columns());
  ASSERT_EQ(got.rows(), want.rows());
  for (const auto& name : want.columns()) {
    if (name == "ap_overall") continue;
    const bool p = name.ends_with("_ks_p");
    const auto x = got.numbers(name), y = want.numbers(name);
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_LE(std::abs(x[i] - y[i]), p ? 1e-2 * y[i] : 1e-9 * std::max(1.0, std::abs(y[i])))
          << name << " row " << i << ": got " << x[i] << ", want " << y[i];
  }
}

TEST_P(author, cells_equal_the_exact_answers) {
  for (const auto& h : heads_) {
    const auto& want = answers_of(h)->at("author_bucket_table");
    ASSERT_EQ(h.cells.size(), want.size());
    double sum = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(h.cells[i].q_bucket, want[i].at("q_bucket").get<index_t>());
      EXPECT_EQ(h.cells[i].k_bucket, want[i].at("k_bucket").get<index_t>());
      EXPECT_EQ(h.cells[i].pairs, want[i].at("pairs").get<std::int64_t>());
      EXPECT_NEAR(h.cells[i].plasticity, want[i].at("ap_bucket").get<double>(), 1e-9);
      sum += h.cells[i].plasticity;
    }
    EXPECT_NEAR(h.overall.value, sum / static_cast<double>(want.size()), 1e-14);
    EXPECT_GT(h.overall.error, 0);
    EXPECT_LT(h.overall.error, 0.1);
  }
}

/// Variance over the pairs of each cell of their plasticity, by brute force.
template <class T>
std::vector<double> cell_variances(const head_view<T>& head, const bucket_edges& buckets, const author_head& h) {
  const auto m = accumulate(ctx, head, edge_buckets{buckets.edges()});
  const auto sign = detail::key_signs(m.k);
  const head_moments flipped{m.buckets, {detail::flipped(m.q.total, sign), m.q.bucket}, {}};
  const auto problem = detail::author_problem(
      fit_queries(ctx, flipped, {.covariance = covariance_kind::linear_drift, .position = query_position::mean}));
  const auto d = static_cast<std::size_t>(head.k.cols);
  std::vector<std::vector<double>> k, z;
  for (index_t i = 0; i < head.k.rows; ++i) {
    k.emplace_back(head.k.row(i), head.k.row(i) + head.k.cols);
    for (std::size_t c = 0; c < d; ++c) k.back()[c] *= sign[c];
    z.push_back(reflect(problem.reflector, k.back()));
    for (std::size_t c = 0; c < d; ++c) z.back()[c] *= std::sqrt(problem.distributions.back().variance[c]);
  }
  std::vector<double> variance;
  for (const auto& cell : h.cells) {
    double sum = 0, square = 0, pairs = 0;
    for (index_t i = 0; i < head.k.rows; ++i)
      for (index_t j = 0; buckets(head.k_position[i]) == cell.k_bucket && j < i; ++j) {
        if (head.k_document[i] != head.k_document[j] || buckets(head.k_position[j]) != cell.k_bucket) continue;
        const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
        const auto delta = dense::difference(z[a], z[b]);
        const double mean = dense::dot(problem.distributions[cell.q_bucket].mean, dense::difference(k[a], k[b]));
        const double pp = pair_plasticity(mean, dense::dot(delta, delta));
        sum += pp;
        square += pp * pp;
        ++pairs;
      }
    EXPECT_EQ(static_cast<std::int64_t>(pairs), cell.pairs);
    EXPECT_NEAR(sum / pairs, cell.plasticity, 1e-9);
    variance.push_back(square / pairs - sum * sum / (pairs * pairs));
  }
  return variance;
}

TEST_P(author, sampled_columns_agree_within_their_standard_error) {
  const auto got = test::written(head_bucket_plasticity_table(heads_)),
             want = read_csv(golden("head_bucket_plasticity"));
  for (const char* name : {"layer", "q_head", "k_head", "q_bucket", "k_bucket"})
    EXPECT_EQ(got.column(name), want.column(name)) << name;
  ASSERT_EQ(got.columns(), want.columns());
  const auto exact = got.numbers("ap_bucket"), sampled = want.numbers("ap_bucket");
  const auto overall = read_csv(golden("head_metrics")).numbers("ap_overall");
  std::size_t row = 0, head = 0;
  double squares = 0;
  for (const auto& h : heads_) {
    const auto layer = source_->read_layer(h.layer);
    double head_variance = 0;
    layer.visit([&]<class T>(const layer_view<T>& view) {
      const auto at = std::find(layer.query_heads.begin(), layer.query_heads.end(), h.q_head);
      const auto variance = cell_variances(view.head(at - layer.query_heads.begin()), buckets_, h);
      for (std::size_t c = 0; c < h.cells.size(); ++c, ++row) {
        // At most 20000 pairs of a cell were drawn, with replacement.
        const double error2 = variance[c] / static_cast<double>(std::min<std::int64_t>(20000, h.cells[c].pairs));
        const double z2 = (exact[row] - sampled[row]) * (exact[row] - sampled[row]) / error2;
        EXPECT_LT(z2, 25) << "row " << row;
        squares += z2;
        head_variance += error2;
      }
    });
    const double cells = static_cast<double>(h.cells.size());
    EXPECT_NEAR(h.overall.value, overall[head++], 4 * std::sqrt(head_variance) / cells);
  }
  EXPECT_EQ(row, sampled.size());
  EXPECT_NEAR(squares / static_cast<double>(row), 1, 0.25);
}

TEST_P(author, component_weights_equal_the_answers) {
  const auto got = test::written(head_component_weights_table(heads_));
  EXPECT_EQ(got.columns(),
            (std::vector<std::string>{"layer", "q_head", "k_head", "component", "component_r2", "component_weight"}));
  const auto r2 = got.numbers("component_r2"), weight = got.numbers("component_weight");
  std::size_t row = 0;
  for (const auto& h : heads_)
    for (const auto& w : answers_of(h)->at("component_weights")) {
      EXPECT_NEAR(r2[row], w.at("r2").get<double>(), 1e-9);
      EXPECT_NEAR(weight[row++], w.at("weight").get<double>(), 1e-9);
    }
  EXPECT_EQ(row, got.rows());
}

INSTANTIATE_TEST_SUITE_P(captures, author, test::golden_cases, test::name_of_case);

planted_head small_head() {
  planted_head p{.dim = 6, .context_length = 1024, .documents = 5, .rows = 64, .seed = 11};
  p.drift_q.assign(6, 1e-3);
  p.mean_k = {1, -1, 0.5, -0.5, 2, -2};
  return p;
}

TEST(author_layer, does_not_depend_on_the_signs_of_coordinates) {
  const auto rows = plant<double>(small_head());
  auto other = rows;
  for (std::size_t i = 0; i < other.q.size(); ++i) {
    other.q[i] *= i % 6 < 3 ? -1 : 1;
    other.k[i] *= i % 6 < 3 ? -1 : 1;
  }
  const auto edges = uniform_buckets{128}.edges(1024);
  const layer_names names{0, true, {0}, {0}};
  const auto a = author_layer(ctx, as_layer(rows.view()), names, edges)[0];
  const auto b = author_layer(ctx, as_layer(other.view()), names, edges)[0];
  ASSERT_EQ(a.cells.size(), 28u);
  for (std::size_t c = 0; c < a.cells.size(); ++c) EXPECT_NEAR(a.cells[c].plasticity, b.cells[c].plasticity, 1e-12);
  EXPECT_NEAR(a.fit.noise.abs_skewness, b.fit.noise.abs_skewness, 1e-12);
}

TEST(author_layer, counts_windows_in_buckets) {
  const auto rows = plant<double>(small_head());
  auto head = rows.view();
  const auto edges = uniform_buckets{128}.edges(1024);
  const layer_names names{0, true, {0}, {0}};
  const auto full = author_layer(ctx, as_layer(head), names, edges)[0];
  head.window = 2;
  const auto windowed = author_layer(ctx, as_layer(head), names, edges)[0];
  ASSERT_EQ(windowed.cells.size(), 7u + 6u);
  double sum = 0;
  for (const auto& c : full.cells)
    if (c.q_bucket - c.k_bucket <= 2) sum += c.plasticity / 13;
  EXPECT_NEAR(windowed.overall.value, sum, 1e-14);
}

TEST(author_layer, thins_heads_of_too_many_tokens) {
  const auto rows = plant<float>(small_head());
  const auto edges = uniform_buckets{128}.edges(1024);
  const layer_names names{4, true, {3}, {1}};
  const auto layer = as_layer(rows.view());
  const auto all = author_layer(ctx, layer, names, edges, {.most_tokens = 0})[0];
  const auto same = author_layer(ctx, layer, names, edges, {.most_tokens = 320})[0];
  EXPECT_EQ(all.overall.value, same.overall.value);
  const auto some = author_layer(ctx, layer, names, edges, {.most_tokens = 200, .seed = 1})[0];
  const auto again = author_layer(ctx, layer, names, edges, {.most_tokens = 200, .seed = 1})[0];
  const auto other = author_layer(ctx, layer, names, edges, {.most_tokens = 200, .seed = 2})[0];
  EXPECT_EQ(some.queries, 200);
  EXPECT_EQ(some.keys, 200);
  EXPECT_EQ(some.layer, 4);
  EXPECT_EQ(some.k_head, 1);
  EXPECT_EQ(some.overall.value, again.overall.value);
  EXPECT_NE(some.overall.value, other.overall.value);
  EXPECT_NEAR(some.overall.value, all.overall.value, 0.1);
}

TEST(author_buckets, number_log2_buckets_as_the_tool_does) {
  capture_manifest manifest;
  manifest.context_length = 1000;
  manifest.bucket = {"log2", 64};
  const auto grid = author_buckets(manifest);
  EXPECT_EQ(grid.first, 6);
  for (const index_t t : {0, 5, 63, 126, 127, 500, 999})
    EXPECT_EQ(grid.first + grid.edges(t),
              std::max<index_t>(6, static_cast<index_t>(std::floor(std::log2(static_cast<double>(t) + 1)))));
}

}  // namespace
}  // namespace qkgeom::examples
