// SPDX-License-Identifier: MIT
// softmax.csv, softmax_distance.csv and loss.csv against sums of each document, written out here.
#include "qkgeom/report/softmax_and_loss.hpp"

#include "tests/io/sample_capture.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using test::sample_statistics;

/// Sum over weight of some documents, and its jackknife error.
void expect_ratio(const estimate& found, const std::vector<double>& sum, const std::vector<double>& weight) {
  const auto want = ratio_of_sums(sum, weight);
  EXPECT_NEAR(found.value, want.value, 1e-14);
  EXPECT_THAT(found.error, testing::NanSensitiveDoubleNear(want.error, 1e-14));
}

struct softmax_tables : test::in_scratch_folder {
  softmax_tables() {
    test::write_sample_folder(folder / "c", true);
    test::write_sample_folder(folder / "without");
  }
  capture_set source() const { return capture_set::open({folder / "c"}); }
  const std::vector<index_t> documents{0, 1, 4};
};

TEST_F(softmax_tables, the_first_token_is_taken_out_where_it_stands) {
  const auto sums = read_softmax(source(), 0);
  const auto report = softmax_of(source());
  ASSERT_TRUE(sums && report);
  constexpr index_t bins = sample_statistics::bins, buckets = sample_statistics::buckets;
  for (index_t d = 0; d < bins; ++d) {
    std::vector<double> mass(documents.size()), queries(documents.size());
    for (std::size_t e = 0; e < documents.size(); ++e)
      for (index_t b = 1; b < buckets; ++b) {
        const index_t row = (static_cast<index_t>(e) * sums->heads * buckets) + b;  // of head 0
        queries[e] += sums->count[static_cast<index_t>(e) * buckets + b];
        mass[e] += sums->distance[row * bins + d];
        if (d == (b == 1 ? 4 : 5)) mass[e] -= sums->first[row * 3];  // positions 8-15 and 16-31 are bins 4 and 5
      }
    expect_ratio(report->heads[0].overall.distance_rest[d], mass, queries);
  }
}

TEST_F(softmax_tables, means_of_heads_and_groups_with_errors_over_documents) {
  const auto report = softmax_of(source());
  ASSERT_TRUE(report);
  ASSERT_EQ(report->heads.size(), 3u);
  ASSERT_EQ(report->groups.size(), 3u);
  EXPECT_EQ(report->heads[1].q_head, 3);
  EXPECT_EQ(report->heads[2].layer, 2);
  EXPECT_FALSE(report->heads[2].rope);
  struct cell {
    index_t layer, head;  // the head's place in its layer
  };
  const auto check = [&](const softmax_row& row, const std::vector<cell>& heads) {
    for (index_t b = 0; b < sample_statistics::buckets; ++b) {
      std::vector<double> queries, first, entropy;
      for (const index_t d : documents) {
        const double n = sample_statistics::queries(d, b);
        queries.push_back(n * static_cast<double>(heads.size()));
        first.push_back(0);
        entropy.push_back(0);
        for (const auto& h : heads) {
          const double share = sample_statistics::share(d, h.layer, h.head * sample_statistics::buckets + b);
          first.back() += n * 2 * share / 4;  // on the first four tokens
          entropy.back() += n * 2 * share;
        }
      }
      const auto& m = row.buckets[b];
      EXPECT_EQ(m.queries, queries[0] + queries[1] + queries[2]);
      expect_ratio(m.first[1], first, queries);
      expect_ratio(m.entropy, entropy, queries);
      EXPECT_NEAR(m.near.value, 1, 1e-15);  // 64 tokens are more than the context
      for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(m.distance[i].value, static_cast<double>(1 + i) / 21, 1e-15);
    }
  };
  check(report->heads[0], {{0, 0}});
  check(report->heads[1], {{0, 1}});
  check(report->heads[2], {{2, 0}});
  check(report->groups[0], {{0, 0}, {0, 1}, {2, 0}});
  check(report->groups[1], {{0, 0}, {0, 1}});
  check(report->groups[2], {{2, 0}});
  EXPECT_EQ(report->groups[2].group, "nope");
  // Of four buckets the first lies in the first fifth of the context, the last in the last.
  EXPECT_EQ(report->heads[0].first20.entropy.value, report->heads[0].buckets[0].entropy.value);
  EXPECT_EQ(report->heads[0].last20.entropy.value, report->heads[0].buckets[3].entropy.value);
  EXPECT_EQ(report->heads[0].overall.queries, 2 * 32 + 16 + 3);
  EXPECT_FALSE(softmax_of(capture_set::open({folder / "without"})));
}

TEST_F(softmax_tables, losses_by_position) {
  const auto report = loss_of(source());
  ASSERT_TRUE(report);
  for (index_t b = 0; b < sample_statistics::buckets; ++b) {
    std::vector<double> sum, count;
    for (const index_t d : documents) {
      count.push_back(sample_statistics::queries(d, b));
      sum.push_back(count.back() * (3 + 0.1 * static_cast<double>(d)));
    }
    const index_t i = b;
    expect_ratio(report->loss[i], sum, count);
    EXPECT_EQ(report->documents[i], b == 3 ? 2u : 3u);
  }
  EXPECT_EQ(report->all_tokens, 2 * 32 + 16 + 3);
  expect_ratio(report->overall, {32 * 3.0, 32 * 3.1, 19 * 3.4}, {32, 32, 19});
  EXPECT_FALSE(loss_of(capture_set::open({folder / "without"})));
}

TEST_F(softmax_tables, as_files) {
  const auto found = *softmax_of(source());
  const auto softmax = test::written(softmax_table(found)), distance = test::written(softmax_distance_table(found)),
             loss = test::written(loss_table(*loss_of(source())));
  EXPECT_EQ(softmax.rows(), 6u * 4);
  EXPECT_EQ(distance.rows(), 6u * (4 + 5 + 6 + 6));  // bins of distance that start before the bucket's end
  EXPECT_EQ(loss.numbers("tokens"), (std::vector<double>{24, 24, 19, 16}));
  EXPECT_EQ(softmax.numbers("queries")[0], 3 * 24);
  EXPECT_EQ(softmax.column("group")[4], "rope");
  EXPECT_EQ(softmax.column("scope")[12], "head");
  const auto mass = distance.numbers("mass");
  EXPECT_NEAR(mass[0], 1.0 / 21, 1e-15);
}

}  // namespace
}  // namespace qkgeom
