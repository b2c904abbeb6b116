// SPDX-License-Identifier: MIT
#include "qkgeom/plasticity/empirical.hpp"
#include "tests/common/on_cpu.hpp"

#include "tests/plasticity/small_head.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

template <class T>
class exact_scores : public testing::Test {};
using score_types = testing::Types<bf16, f16, float, double>;
TYPED_TEST_SUITE(exact_scores, score_types);

TEST(empirical, equal_keys_tie) {
  for (const index_t d : {16, 33, 72, 128})
    for (const int copies : {2, 5, 7, 29, 50}) {
      auto rows = plant<float>({.dim = d, .context_length = 1000, .documents = 1, .rows = 200});
      const std::vector<float> key(rows.k.begin(), rows.k.begin() + d),
          other(rows.k.begin() + d, rows.k.begin() + 2 * d);
      rows.k = other;  // the mean must not be the key
      rows.k_position = {600};
      rows.k_document = {0};
      for (int i = copies; i-- > 0;) {
        rows.k.insert(rows.k.begin(), key.begin(), key.end());
        rows.k_position.insert(rows.k_position.begin(), i);
        rows.k_document.push_back(0);
      }
      const auto p = empirical_profile(ctx, rows.view(), uniform_buckets{500}, 1000);
      EXPECT_EQ(p.buckets[1].plasticity, 1) << d << ' ' << copies;
    }
}

// Equal exact scores tie, though the keys' mean has no exact value in the type.
TYPED_TEST(exact_scores, tie_where_they_are_equal) {
  using T = TypeParam;
  constexpr std::int64_t queries = 61, keys = 151;
  const random_stream draws{.seed = 3};
  for (const auto& [d, values, common] : {std::array<std::int64_t, 3>{2, 5, 0}, {4, 5, 60}, {32, 2, 0}, {9, 3, 100}}) {
    std::vector<std::int64_t> q, k;
    for (std::int64_t i = 0; i < queries * d; ++i) q.push_back(static_cast<std::int64_t>(draws.below(i, 5)) - 2);
    for (std::int64_t i = 0; i < keys * d; ++i)
      k.push_back(common + static_cast<std::int64_t>(
                               draws.below((std::uint64_t{1} << 32) + static_cast<std::uint64_t>(i), values)));
    const auto as_t = [](const std::vector<std::int64_t>& integers) {
      std::vector<T> rounded;
      for (const auto x : integers) rounded.push_back(round_to<T>(static_cast<double>(x)));
      return rounded;
    };
    planted_rows<T> rows{d,
                         as_t(q),
                         as_t(k),
                         std::vector<std::int32_t>(queries, 500),
                         std::vector<std::int32_t>(queries),
                         {},
                         std::vector<std::int32_t>(keys)};
    for (std::int32_t i = 0; i < keys; ++i) rows.k_position.push_back(i);
    double want = 0;
    for (std::int64_t j = 1; j < keys; ++j)
      for (std::int64_t i = 0; i < j; ++i) {
        std::int64_t twice = 0;
        for (std::int64_t r = 0; r < queries; ++r) {
          std::int64_t less = 0;
          for (std::int64_t c = 0; c < d; ++c) less += q[r * d + c] * (k[j * d + c] - k[i * d + c]);
          twice += (less > 0) + (less >= 0);
        }
        const double share = static_cast<double>(twice) / (2.0 * queries);
        want += 4 * share * (1 - share);
      }
    want /= keys * (keys - 1) / 2;
    EXPECT_NEAR(empirical_profile(ctx, rows.view(), edge_buckets{{499, 501}}, 501).buckets[0].plasticity, want, 1e-12)
        << d << ' ' << values << ' ' << common;
  }
}

TEST(empirical, keys_whose_range_is_subnormal_are_ordered) {
  const planted_rows<double> rows{1, {1, -1}, {0, 1e-322}, {10, 11}, {0, 0}, {0, 1}, {0, 0}};
  EXPECT_EQ(empirical_profile(ctx, rows.view(), edge_buckets{{10, 20}}, 20).buckets[0].plasticity, 1);
}

TEST(empirical, thins_to_the_queries_asked_for) {
  const auto rows = plant<float>({.dim = 4, .context_length = 100, .documents = 3, .rows = 400});
  const auto all = empirical_profile(ctx, rows.view(), uniform_buckets{50}, 100);
  const auto few = empirical_profile(ctx, rows.view(), uniform_buckets{50}, 100, {.max_queries = 100});
  EXPECT_NE(all.buckets[1].plasticity, few.buckets[1].plasticity);
  EXPECT_NEAR(all.buckets[1].plasticity, few.buckets[1].plasticity, 0.05);
  EXPECT_EQ(few.buckets[1].plasticity,
            empirical_profile(ctx, rows.view(), uniform_buckets{50}, 100, {.max_queries = 100}).buckets[1].plasticity);
  EXPECT_GT(few.buckets[1].queries, 500);
  EXPECT_EQ(few.buckets[1].queries_used, 100);
  EXPECT_EQ(all.buckets[1].queries_used, all.buckets[1].queries);
  EXPECT_DOUBLE_EQ(unbiased(few).buckets[1].plasticity, few.buckets[1].plasticity * 100 / 99);
  EXPECT_DOUBLE_EQ(unbiased(few).buckets[1].standard_error, few.buckets[1].standard_error * 100 / 99);
}

TEST(empirical, f64_gives_what_the_same_rows_give_as_f64) {
  auto rows = plant<float>({.dim = 24, .context_length = 1000, .documents = 3, .rows = 150, .seed = 4});
  test::bring_scores_close(rows);
  planted_rows<double> wide{24,
                            {rows.q.begin(), rows.q.end()},
                            {rows.k.begin(), rows.k.end()},
                            rows.q_position,
                            rows.q_document,
                            rows.k_position,
                            rows.k_document};
  const auto want = empirical_profile(ctx, wide.view(), uniform_buckets{250}, 1000);
  const auto f64 = empirical_profile(ctx, rows.view(), uniform_buckets{250}, 1000, {.precision = pair_precision::f64});
  const auto f32 = empirical_profile(ctx, rows.view(), uniform_buckets{250}, 1000);
  const auto narrow =
      empirical_profile(ctx, wide.view(), uniform_buckets{250}, 1000, {.precision = pair_precision::f32});
  for (std::size_t b = 1; b < 4; ++b) {
    EXPECT_EQ(f64.buckets[b].plasticity, want.buckets[b].plasticity);
    EXPECT_EQ(f64.buckets[b].standard_error, want.buckets[b].standard_error);
    EXPECT_EQ(f32.buckets[b].plasticity, narrow.buckets[b].plasticity);
    EXPECT_NE(f32.buckets[b].plasticity, want.buckets[b].plasticity);
  }
}

template <class T>
class scaled_scores : public testing::Test {};
using scaled_scores_types = testing::Types<bf16, float, double>;
TYPED_TEST_SUITE(scaled_scores, scaled_scores_types);

TYPED_TEST(scaled_scores, have_the_same_order) {
  using T = TypeParam;
  const auto rows = plant<T>({.dim = 8, .context_length = 1000, .documents = 2, .rows = 100, .seed = 6});
  const auto want = empirical_profile(ctx, rows.view(), uniform_buckets{250}, 1000);
  test::for_each_scaling(rows, [&](const planted_rows<T>& scaled, int q, int k) {
    const auto got = empirical_profile(ctx, scaled.view(), uniform_buckets{250}, 1000);
    for (std::size_t b = 1; b < 4; ++b)
      EXPECT_NEAR(got.buckets[b].plasticity, want.buckets[b].plasticity, 1e-6) << q << ' ' << k;
  });
}

TEST(empirical, queries_that_do_not_fit_the_layer_are_refused) {
  auto rows = plant<float>({.dim = 4, .context_length = 100, .documents = 2, .rows = 50});
  const auto wider = plant<float>({.dim = 5, .context_length = 100, .documents = 2, .rows = 50});
  observed_queries<float> gathered(uniform_buckets{50}.edges(100), 4096, 0);
  gathered.add(as_layer(rows.view()));
  const auto queries = gathered.take();
  EXPECT_EQ(empirical_profile(ctx, queries, as_layer(rows.view()), gathered.edges())[0].buckets.size(), 2u);
  EXPECT_EQ(
      test::message_of([&] { empirical_profile(ctx, queries, as_layer(rows.view()), uniform_buckets{25}.edges(100)); }),
      "empirical_profile: queries of 2 buckets for edges of 4");
  EXPECT_EQ(test::message_of([&] { empirical_profile(ctx, queries, as_layer(wider.view()), gathered.edges()); }),
            "empirical_profile: queries of 1 heads of size 4 for a layer of 1 of size 5");
  rows.q[4 * 7 + 2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(test::message_of([&] { empirical_profile(ctx, rows.view(), uniform_buckets{50}, 100); }),
            "observed queries: row 7 of q is not finite");
}

}  // namespace
