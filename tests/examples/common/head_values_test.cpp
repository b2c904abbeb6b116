// SPDX-License-Identifier: MIT
#include "examples/common/numbers/head_values.hpp"

#include "examples/common/numbers/comparison.hpp"
#include "qkgeom/report/columns.hpp"
#include "qkgeom/stats/shape.hpp"
#include "tests/io/scratch.hpp"
#include "tests/report/hand_report.hpp"

namespace qkgeom::examples {
namespace {

/// Four heads of two layers, one of them NoPE, whose mean query on axis a is known.
model_report four_heads() {
  auto report = test::hand_report(4, test::scattered);
  const double mu[] = {-3, 1, 2, 8};
  for (std::size_t h = 0; h < 4; ++h) {
    auto& head = report.heads[h];
    head.pca.r_q = head.pca.r_k = head.pca.explained_variance = {0.1};
    head.rotation.q.mu = mu[h];
  }
  return report;
}

TEST(model_columns, signed_mean_mean_of_absolute_values_and_median) {
  const auto columns = column_summaries(four_heads());
  index_t seen = 0;
  for (const auto& s : columns) {
    if (s.column != "mu_q_a") continue;
    ++seen;
    EXPECT_EQ(s.heads, s.group == "all" ? 4 : 2);
    if (s.group == "rope") {
      EXPECT_EQ(s.mean.value, -1);
      EXPECT_EQ(s.mean_abs.value, 2);
    }
    if (s.group != "all") continue;
    EXPECT_EQ(s.mean.value, 2);
    EXPECT_EQ(s.mean_abs.value, 3.5);
    EXPECT_EQ(s.median.value, 1.5);
    EXPECT_NEAR(s.mean.head_error, std::sqrt(62.0 / 3 / 4), 1e-14);  // squares about 2: 25, 1, 0, 36
  }
  EXPECT_EQ(seen, 3);  // all, rope, nope
  for (const char* name : {"alpha_q", "alpha_k", "alpha_k_b", "r_q_a", "r_k_a", "r_q_pc0", "r_k_pc0", "mu_q_a",
                           "mu_k_a", "mu_q_b", "mu_k_b"})
    EXPECT_TRUE(std::any_of(columns.begin(), columns.end(), [&](const auto& s) { return s.column == name; })) << name;
}

TEST(model_columns, linear_share_of_ten_components) {
  auto head = four_heads().heads[0];
  head.pca.explained_variance.assign(12, 0.08);
  head.pca.r_q.assign(12, 0.5);
  head.pca.r_k.assign(12, -1.0);
  std::map<std::string, double> value;
  for (const auto& c : pca_columns()) value[c.name] = c.value(head);
  EXPECT_NEAR(value.at("q_linear_share_pc10"), 0.2, 1e-15);
  EXPECT_NEAR(value.at("k_linear_share_pc10"), 0.8, 1e-15);
}

TEST(model_columns, table) {
  const auto columns = column_summaries(four_heads());
  const auto table = test::written(model_columns_table(columns));
  ASSERT_EQ(table.rows(), columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    EXPECT_EQ(table.column("column")[i], columns[i].column);
    for (const auto& [name, number] : {std::pair("mean", columns[i].mean), {"mean_abs", columns[i].mean_abs}})
      EXPECT_THAT(table.numbers(name)[i], testing::NanSensitiveDoubleEq(number.value)) << columns[i].column;
  }
}

TEST(model_columns, layer_means_have_errors_of_their_own) {
  auto report = four_heads();
  std::vector<double> value{0.5, 0.7, 0.2, 0.6};
  for (std::size_t h = 0; h < 4; ++h) {  // one bucket, three documents of weight 1
    const double v = value[h], second = v + 0.1 * static_cast<double>(h + 1);
    report.heads[h].profiles = {test::hand_profile({{{v - 0.1, 1}, {second, 1}, {v, 1}}}, {2}, {0, 1, 2})};
    report.heads[h].summaries = {summarize(report.heads[h].profiles[0], 1000)};
  }
  const auto table = test::written(layers_table(report));
  ASSERT_EQ(table.rows(), 2u);
  EXPECT_EQ(table.numbers("heads"), (std::vector<double>{2, 2}));
  EXPECT_EQ(table.numbers("mu_q_a"), (std::vector<double>{-1, 5}));
  EXPECT_EQ(table.numbers("mu_q_a_head_error"), (std::vector<double>{2, 3}));
  EXPECT_TRUE(std::isnan(table.numbers("mu_q_a_error")[0]));  // the geometry was not found again without documents
  // Layer 0: the documents' means over heads are 0.5, 0.75 and 0.6.
  EXPECT_NEAR(table.numbers("ap_overall")[0], 1.85 / 3, 1e-14);
  EXPECT_NEAR(table.numbers("ap_overall_error")[0], shape_of({0.5, 0.75, 0.6}).deviation / std::sqrt(3.0), 1e-14);
}

/// A report in which buckets 0 and 1 have pairs of document 1 alone, bucket 2 of documents 0 and 1.
model_report sparse_report() {
  auto report = test::hand_report(3, test::scattered);
  for (std::size_t h = 0; h < report.heads.size(); ++h)
    for (std::size_t b = 0; b < 10; ++b) {
      auto& bucket = report.heads[h].profiles[0].buckets[b];
      for (std::size_t e = 0; e < 4; ++e) {
        const bool has_pairs = !((b < 2 && e != 1) || (b == 2 && e > 1));
        bucket.document_weight[e] = has_pairs ? 10 : 0;
        bucket.document_sum[e] =
            has_pairs ? 10 * (0.5 + 0.01 * static_cast<double>(e * e) + 0.02 * static_cast<double>(h * h)) : 0;
      }
      set_mean_and_error(bucket);
    }
  return report;
}

TEST(group_numbers, of_one_document_have_no_error_over_documents) {
  const auto report = sparse_report();
  const auto first = plasticity_between(report, 0, 200), fourth = plasticity_between(report, 300, 400);
  const auto mean_of = [](const head_values& r) {
    return estimate_over_heads({&r}, {0, 1, 2}, [&](index_t e, const std::vector<std::size_t>& in) {
      double sum = 0;
      for (const double v : r.at(e, in)) sum += v / 3;
      return sum;
    });
  };
  EXPECT_TRUE(std::isnan(mean_of(first).error));
  EXPECT_GT(mean_of(first).head_error, 0);
  EXPECT_NEAR(mean_of(fourth).error, report.heads[0].profiles[0].buckets[3].standard_error, 1e-14);
}

TEST(group_numbers, are_paired_where_the_same_documents_were_drawn) {
  compared_model a, b;
  a.document_ids = b.document_ids = {"x", "y", "z"};
  a.profile_documents = b.profile_documents = {0, 1, 2};
  a.blocks = b.blocks = {{0, 1, 2}, 3};
  EXPECT_TRUE(same_documents(a, b));
  b.profile_documents = {0, 1};
  EXPECT_FALSE(same_documents(a, b));
  b.profile_documents = a.profile_documents;
  b.blocks = {{1, 2}, 2};
  EXPECT_FALSE(same_documents(a, b));
  // A document without a say in one number has the number itself there.
  const double none = std::numeric_limits<double>::quiet_NaN();
  const group_number x{"n", 1, {0.9, 1.1, none, 1.2}}, y{"n", 2, {1.9, none, none, 2.1}};
  EXPECT_NEAR(difference_of(x, y, true).error, jackknife_error({-1.0, -0.9, -0.9}), 1e-15);
  EXPECT_EQ(difference_of(x, y, true).freedom, 2);
}

}  // namespace
}  // namespace qkgeom::examples
