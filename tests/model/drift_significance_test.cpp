// SPDX-License-Identifier: MIT
#include "qkgeom/model/drift_significance.hpp"
#include "tests/common/on_cpu.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

planted_head head_of(std::uint64_t seed, double drift) {
  planted_head p{.dim = 5, .context_length = 1000, .documents = 10, .rows = 40, .seed = seed};
  p.drift_q = {drift, 0, 0, 0, -drift};
  return p;
}

drift_test_result run(const planted_rows<double>& rows, const drift_test_options& options = {}) {
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{250}, {.context_length = 1000});
  return drift_significance(ctx, m, rows.view(), options);
}
drift_test_result run(const planted_head& planted, const drift_test_options& options = {}) {
  return run(plant<double>(planted), options);
}

TEST(drift_significance, finds_a_drift_and_its_error) {
  const auto r = run(head_of(1, 1e-3));
  EXPECT_EQ(r.documents, 10);
  EXPECT_DOUBLE_EQ(r.p, std::pow(2.0, -9));
  EXPECT_NEAR(r.beta_pos, std::sqrt(2.0) * 1e-3, 4 * r.standard_error);
  // Unit noise, positions uniform over the context: the error of a slope is sqrt(12 / n) / length.
  EXPECT_NEAR(r.standard_error / (std::sqrt(12 / 400.0) / 1000), 1, 0.6);
}

TEST(drift_significance, moments_of_other_heads_are_refused) {
  const auto rows = plant<double>(head_of(1, 1e-3));
  auto two = as_layer(rows.view());
  two.q.heads = 2, two.q.head_stride = 0, two.key_of_query = {0, 0};
  const auto m = accumulate(ctx, as_layer(rows.view()), uniform_buckets{250}, {.context_length = 1000});
  EXPECT_QKGEOM_ERROR("drift_test: moments of 1 query and 1 key heads for 2 and 1", drift_significance(ctx, m, two));
  auto head = rows.view();
  head.q_document.size -= 1;
  const head_moments of_head{m.buckets, m.q[0], m.k[0]};
  EXPECT_THROW(drift_significance(ctx, of_head, head), error);
}

TEST(drift_significance, has_its_level_where_nothing_drifts) {
  const int runs = 300;
  int below = 0;
  double sum = 0;
  for (std::uint64_t seed = 0; seed < runs; ++seed) {
    const double p = run(head_of(seed, 0)).p;
    below += p <= 0.1;
    sum += p;
  }
  EXPECT_NEAR(below / double{runs}, 0.1, 4 * std::sqrt(0.09 / runs));
  EXPECT_NEAR(sum / runs, 0.5, 4 / std::sqrt(12.0 * runs));
}

TEST(drift_significance, has_its_level_where_documents_differ) {
  // Each document has an offset and a slope: its rows are far from independent, documents are independent.
  const int runs = 300;
  int below = 0;
  for (std::uint64_t seed = 0; seed < runs; ++seed) {
    auto rows = plant<double>(head_of(seed, 0));
    const random_stream own{.seed = seed + 1000};
    for (std::size_t i = 0; i < rows.q.size(); ++i) {
      const auto e = static_cast<std::uint64_t>(rows.q_document[i / 5]);
      rows.q[i] += 0.02 * (own.uniform(e * 5 + i % 5) - 0.5) * rows.q_position[i / 5];
    }
    below += run(rows).p <= 0.1;
  }
  EXPECT_NEAR(below / double{runs}, 0.1, 4 * std::sqrt(0.09 / runs));
}

TEST(drift_significance, draws_patterns_where_there_are_too_many) {
  const auto planted = head_of(3, 1e-4);
  const double all = run(planted).p, drawn = run(planted, {.max_flips = 400}).p;
  EXPECT_NEAR(drawn, all, 5 * std::sqrt(all * (1 - all) / 400) + 1 / 401.0);
  EXPECT_EQ(drawn, run(planted, {.max_flips = 400}).p);
  EXPECT_QKGEOM_ERROR("max_flips must be at least 1, not -1", run(planted, {.max_flips = -1}));
  EXPECT_NEAR(drawn * 401, std::round(drawn * 401), 1e-9);  // the observed pattern counts too
}

// A strong drift has the smallest p that the documents allow.
TEST(drift_significance, tells_the_smallest_p) {
  for (const index_t documents : {2, 3, 5, 10}) {
    auto few = head_of(2, 1e-1);
    few.documents = documents;
    const auto r = run(few);
    EXPECT_EQ(r.least_p, std::pow(2.0, 1 - documents));
    EXPECT_EQ(r.p, r.least_p);
    EXPECT_EQ(run(few, {.max_flips = 1}).least_p, 0.5);
  }
  auto many = head_of(2, 1e-1);
  many.documents = 12;
  const auto r = run(many);
  EXPECT_DOUBLE_EQ(r.least_p, 1 / 2000.0);
  EXPECT_GE(r.p, r.least_p);
}

TEST(drift_significance, of_one_document_or_one_position_is_null) {
  auto one = head_of(1, 1e-3);
  one.documents = 1;
  EXPECT_TRUE(std::isnan(run(one).p));
  auto rows = plant<double>(head_of(1, 1e-3));
  for (auto& t : rows.q_position) t = 3;
  EXPECT_TRUE(std::isnan(run(rows).p));
}

}  // namespace
