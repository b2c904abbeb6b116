// SPDX-License-Identifier: MIT
// Pair kernels against the definition, written out in double.
#include "qkgeom/plasticity/profile.hpp"

#include "qkgeom/plasticity/bucket_table.hpp"
#include "tests/backend/compared_contexts.hpp"
#include "tests/plasticity/pair_oracle.hpp"

namespace {

using namespace qkgeom;
using test::add_key;
using test::ctx;
using test::model_of;
using test::oracle_mean;
using test::with_queries;

/// The profile by the definition: every pair, by query bucket.
std::vector<oracle_mean> brute_force(const query_model& model, const head_view<double>& head,
                                     const pair_weight& weight = {}) {
  std::vector<oracle_mean> means(model.buckets.count());
  test::for_each_pair(model, head, false, {}, [&](const test::oracle_pair& p) {
    means[p.bucket].add(p.group, p.value[0], weight ? weight(p.keys) : 1);
  });
  return means;
}

struct head_shape {
  index_t dim, documents, rows;
};

class all_pairs_of : public testing::TestWithParam<head_shape> {};

/// Groups below and above the smallest size for tiles, no multiples of panels and lanes; the last one is longer than a
/// block of 16 panels at any width.
INSTANTIATE_TEST_SUITE_P(sizes, all_pairs_of,
                         testing::Values(head_shape{1, 4, 5}, head_shape{2, 3, 1}, head_shape{3, 40, 2},
                                         head_shape{8, 7, 17}, head_shape{33, 3, 64}, head_shape{16, 2, 65},
                                         head_shape{32, 2, 131}, head_shape{40, 1, 200}, head_shape{12, 1, 900}));

TEST_P(all_pairs_of, equal_brute_force) {
  const auto s = GetParam();
  planted_head spec{.dim = s.dim, .context_length = 1000, .documents = s.documents, .rows = s.rows, .seed = 11};
  spec.drift_q.assign(s.dim, 1e-3);
  spec.mean_k.assign(s.dim, 50.0);  // a large common mean must not matter
  const auto rows = plant<double>(spec);
  for (const bool windowed : {false, true}) {
    auto head = rows.view();
    if (windowed) head.window = 400;
    for (const auto kind : all_covariance_kinds) {
      SCOPED_TRACE(name_of(kind));
      const auto model = model_of(head, 150, 1000, kind);
      const auto want = brute_force(model, head);
      const auto weighted = brute_force(model, head, prefix_uniform{}.weight());
      for (const auto precision : {pair_precision::f64, pair_precision::f32}) {
        const auto got = plasticity_profile(ctx, model, head, all_pairs{}, {.heatmap = true, .precision = precision});
        const auto plain = plasticity_profile(ctx, model, head, all_pairs{}, {.precision = precision});
        const auto prefix = plasticity_profile(ctx, model, head, prefix_uniform{.documents_weigh_same = false},
                                               {.precision = precision});
        // f32: 2e-7 of the formula, and keys rounded to 2^-24 of their distance from the mean.
        const double bound = precision == pair_precision::f64 ? 1e-11 : 1e-6;
        double heat = 0, heat_pairs = 0, sum = 0, pairs = 0;
        for (std::size_t b = 0; b < want.size(); ++b) {
          EXPECT_EQ(got.buckets[b].pairs, want[b].pairs);
          if (want[b].pairs == 0) {
            EXPECT_TRUE(std::isnan(got.buckets[b].plasticity));
            continue;
          }
          EXPECT_NEAR(got.buckets[b].plasticity, want[b].mean(), bound) << "bucket " << b;
          EXPECT_NEAR(plain.buckets[b].plasticity, want[b].mean(), bound) << "bucket " << b;
          EXPECT_NEAR(prefix.buckets[b].plasticity, weighted[b].mean(), bound) << "bucket " << b;
          sum += got.buckets[b].plasticity * static_cast<double>(got.buckets[b].pairs);
          pairs += static_cast<double>(got.buckets[b].pairs);
        }
        for (const double x : got.heatmap.sum) heat += x;
        for (const double x : got.heatmap.weight) heat_pairs += x;
        EXPECT_EQ(heat_pairs, pairs);  // every pair falls in one cell
        EXPECT_NEAR(heat, sum, 1e-6 * sum + 1e-12);
      }
    }
  }
}

TEST(plasticity, does_not_depend_on_the_thread_count) {
  const auto rows = plant<float>({.dim = 20, .context_length = 4000, .documents = 2, .rows = 1500, .seed = 2});
  cpu_context one{{.threads = 1}}, three{{.threads = 3}};
  const auto model = model_of(rows.view(), 1000, 4000, covariance_kind::joint);
  const auto a = plasticity_profile(one, model, rows.view(), all_pairs{}, {.heatmap = true});
  const auto b = plasticity_profile(three, model, rows.view(), all_pairs{}, {.heatmap = true});
  test::expect_same(a, b);
}

TEST(plasticity, f32_holds_for_keys_with_a_common_mean_and_near_equal_keys) {
  planted_head spec{.dim = 64, .context_length = 1000, .documents = 1, .rows = 600, .seed = 6};
  spec.mean_k.assign(64, 300.0);
  spec.drift_q.assign(64, 1e-4);
  auto rows = plant<double>(spec);
  for (std::size_t i = 0; i < 200; ++i)  // keys that differ from their neighbour by a thousandth
    for (std::size_t c = 0; c < 64; ++c)
      rows.k[(3 * i + 1) * 64 + c] = rows.k[3 * i * 64 + c] + (rows.k[(3 * i + 1) * 64 + c] - 300.0) * 1e-3;
  for (const auto kind : {covariance_kind::diagonal, covariance_kind::joint}) {
    const auto model = model_of(rows.view(), 250, 1000, kind);
    const auto exact = plasticity_profile(ctx, model, rows.view(), all_pairs{}, {.precision = pair_precision::f64});
    const auto fast = plasticity_profile(ctx, model, rows.view(), all_pairs{}, {.precision = pair_precision::f32});
    const auto want = brute_force(model, rows.view());
    for (std::size_t b = 1; b < 4; ++b) {
      EXPECT_NEAR(exact.buckets[b].plasticity, want[b].mean(), 1e-9);
      EXPECT_NEAR(fast.buckets[b].plasticity, want[b].mean(), 1e-6);
    }
  }
}

template <class T>
class sizes_of : public testing::Test {};
using sizes_of_types = testing::Types<bf16, float, double>;
TYPED_TEST_SUITE(sizes_of, sizes_of_types);

/// Plasticity has no unit: rows times a power of two have the same. Small groups, tiles, and drawn pairs.
TYPED_TEST(sizes_of, rows_do_not_change_plasticity) {
  using T = TypeParam;
  for (const index_t rows : {30, 200}) {
    planted_head spec{.dim = 8, .context_length = 1000, .documents = 2, .rows = rows, .seed = 8};
    spec.mean_q.assign(8, 0.7);
    const auto plain = plant<T>(spec);
    const auto values = [&](const planted_rows<T>& r) {
      std::vector<double> all;
      for (const auto kind : {covariance_kind::diagonal, covariance_kind::joint}) {
        const auto model = model_of(r.view(), 250, 1000, kind);
        all.push_back(plasticity_profile(ctx, model, r.view()).buckets[3].plasticity);
        all.push_back(plasticity_profile(ctx, model, r.view(), sampled{.n = 50, .seed = 1}).buckets[3].plasticity);
      }
      return all;
    };
    const auto want = values(plain);
    EXPECT_LT(want[0], 0.99);
    test::for_each_scaling(plain, [&](const planted_rows<T>& scaled, int q, int k) {
      const auto got = values(scaled);
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i << ' ' << q << ' ' << k;
    });
  }
}

plasticity_profile_result profile(const planted_rows<double>& h, covariance_kind kind = covariance_kind::diagonal,
                                  pair_precision precision = pair_precision::f64) {
  return plasticity_profile(ctx, model_of(h.view(), 50, 200, kind), h.view(), all_pairs{}, {.precision = precision});
}
constexpr pair_precision both_precisions[] = {pair_precision::f32, pair_precision::f64};

TEST(degenerate, one_key_has_no_pair) {
  auto h = with_queries();
  add_key(h, 1, 2, 3);
  for (const auto& b : profile(h).buckets) {
    EXPECT_TRUE(std::isnan(b.plasticity));
    EXPECT_EQ(b.pairs, 0);
  }
}

TEST(degenerate, equal_keys_are_a_coin_toss) {
  for (const int copies : {2, 3, 90}) {
    auto h = with_queries();
    for (int i = 0; i < copies; ++i)
      add_key(h, 0.5, -1.25, std::min(i, 49));  // their mean is exact, so that the difference from it is 0
    for (const auto kind : all_covariance_kinds)
      for (const auto precision : both_precisions) {
        const auto p = profile(h, kind, precision);
        for (std::size_t b = 1; b < 4; ++b) EXPECT_EQ(p.buckets[b].plasticity, 1.0) << name_of(kind) << " " << copies;
      }
  }
}

TEST(degenerate, equal_keys_of_one_document_leave_the_others_alone) {
  auto h = with_queries();
  const random_stream s{.seed = 3};
  for (int e = 0; e < 2; ++e)
    for (int i = 0; i < 90; ++i) {
      const auto at = static_cast<std::uint64_t>(2 * i);
      add_key(h, e == 0 ? 0.5 : s.uniform(at), e == 0 ? -1.25 : s.uniform(at + 1), i / 2, e);
    }
  for (const auto kind : all_covariance_kinds) {
    const auto exact = profile(h, kind), fast = profile(h, kind, pair_precision::f32);
    EXPECT_NEAR(exact.buckets[1].document_sum[0], 90 * 89 / 2, 1e-9) << name_of(kind);
    for (std::size_t b = 1; b < 4; ++b)
      EXPECT_NEAR(fast.buckets[b].plasticity, exact.buckets[b].plasticity, 1e-6) << name_of(kind);
  }
}

/// Two of the keys differ by eps, the same pair of z whatever eps is.
TEST(degenerate, f64_pairs_of_near_keys_are_what_their_difference_says) {
  for (const int keys : {10, 200})
    for (const auto kind : {covariance_kind::diagonal, covariance_kind::joint}) {
      const auto pair_of = [&](double eps) {
        auto h = with_queries();
        const random_stream s{.seed = 4};
        for (int i = 0; i < keys; ++i) {
          const auto at = static_cast<std::uint64_t>(2 * i);
          add_key(h, s.uniform(at) - 0.5, s.uniform(at + 1) - 0.5, i / 5);
        }
        h.k[0] = h.k[1] = 0;
        h.k[2] = eps, h.k[3] = -eps;
        const auto model = model_of(h.view(), 50, 200, kind);
        const auto first = [](const key_pair& p) { return p.i + p.j == 1 ? 1.0 : 0.0; };
        return plasticity_profile(ctx, model, h.view(), first, {.precision = pair_precision::f64})
            .buckets[2]
            .plasticity;
      };
      const double want = pair_of(1e-6);
      EXPECT_GT(want, 1e-3);
      EXPECT_LT(want, 1 - 1e-3);
      for (const double eps : {1e-9, 1e-11}) EXPECT_NEAR(pair_of(eps), want, 1e-4) << keys << ' ' << eps;
    }
}

TEST(degenerate, empty_buckets_are_null) {
  auto h = with_queries();
  for (auto& t : h.q_position) t = t < 100 ? t : t % 50 + 150;
  h.k = {1, 2, 0, 1, 2, 2};
  h.k_position = {3, 7, 9};
  h.k_document = {0, 0, 0};
  const auto p = profile(h);
  EXPECT_FALSE(std::isnan(p.buckets[1].plasticity));
  EXPECT_EQ(p.buckets[2].queries, 0);
  EXPECT_TRUE(std::isnan(p.buckets[2].plasticity));
  EXPECT_FALSE(std::isnan(p.buckets[3].plasticity));
}

TEST(degenerate, queries_that_never_vary_decide_every_pair) {
  auto h = with_queries();
  for (std::size_t i = 0; i < h.q.size(); ++i) h.q[i] = i % 2 ? 0.0 : 1.0;
  h.k = {1, 2, 3, 1, 2, 2};
  h.k_position = {3, 7, 9};
  h.k_document = {0, 0, 0};
  for (const auto kind : all_covariance_kinds) EXPECT_EQ(profile(h, kind).buckets[1].plasticity, 0.0) << name_of(kind);
  for (int i = 0; i < 90; ++i) add_key(h, 4.0 + i, 1, 10 + i / 3);  // enough for tiles
  h.k[4] = 4.5;                                                     // no two keys have one score
  for (const auto kind : all_covariance_kinds)
    for (const auto precision : both_precisions)
      EXPECT_EQ(profile(h, kind, precision).buckets[1].plasticity, 0.0) << name_of(kind);
}

// Keys that differ only in coordinates without variance: v cancels and the lane is computed again. Its first value must
// not overflow, which the sanitizers would see.
TEST(degenerate, pairs_that_do_not_differ_where_queries_do) {
  constexpr index_t n = 300, d = 4;
  const random_stream draws{.seed = 1};
  std::vector<float> k;
  for (index_t i = 0; i < n * d; ++i)
    k.push_back(static_cast<float>(draws.uniform(static_cast<std::uint64_t>(i)) - 0.5));
  for (std::size_t i = d; i < k.size(); i += 2 * d) k[i] = k[i - d];
  query_model m;
  m.buckets = bucket_edges({500, 600});
  m.covariance = covariance_kind::diagonal;
  m.bucket.push_back({2, 550, {0, 1, 1, 1}, {1, 0, 0, 0}, {}});
  planted_rows<float> rows{d, std::vector<float>(2 * d), k, {500, 510}, {0, 0}, {}, std::vector<std::int32_t>(n)};
  for (std::int32_t i = 0; i < n; ++i) rows.k_position.push_back(i);
  const auto value = [&](pair_precision p) {
    return plasticity_profile(ctx, m, rows.view(), all_pairs{}, {.precision = p}).buckets[0].plasticity;
  };
  EXPECT_NEAR(value(pair_precision::f32), value(pair_precision::f64), 1e-6);
}

TEST(profile, a_heatmap_of_too_many_cells_is_refused) {
  auto h = with_queries();
  add_key(h, 1, 2, 3);
  add_key(h, 0, 1, 7);
  h.q_position.back() = 131071;
  const auto model = model_of(h.view(), 50, 131072);
  EXPECT_QKGEOM_ERROR("heatmap_cell: cells of 1 tokens over",
                      plasticity_profile(ctx, model, h.view(), all_pairs{}, {.heatmap = true, .heatmap_cell = 1}));
}

TEST(profile, a_heatmap_has_no_more_than_256_cells_a_side) {
  EXPECT_EQ(detail::usual_cell(uniform_buckets{8192}.edges(131072)), 8192);
  EXPECT_EQ(detail::usual_cell(uniform_buckets{512}.edges(131072)), 512);
  EXPECT_EQ(detail::usual_cell(bucket_edges({0, 1, 3, 7, 131071})), 512);
}

TEST(profile, keys_beyond_the_query_buckets_take_no_cells_of_a_heatmap) {
  const auto rows = plant<float>({.dim = 4, .context_length = 4096, .documents = 1, .rows = 4096});
  const auto model = fit_queries(ctx, accumulate(ctx, rows.view(), edge_buckets{{0, 64, 128}}, {}));
  const auto got = plasticity_profile(ctx, model, rows.view(), all_pairs{}, {.heatmap = true});
  EXPECT_EQ(got.heatmap.cell, 64);
  EXPECT_LE(got.heatmap.width, 4);
  ASSERT_GT(got.buckets[1].pairs, 0);
  EXPECT_EQ(std::accumulate(got.heatmap.weight.begin(), got.heatmap.weight.end(), 0.0), got.buckets[1].pairs);
}

TEST(profile, models_that_do_not_fit_the_layer_are_refused_by_name) {
  const auto rows = plant<double>({.dim = 4, .context_length = 100, .documents = 2, .rows = 50});
  auto wider = plant<double>({.dim = 5, .context_length = 100, .documents = 2, .rows = 50});
  for (auto& t : wider.q_position) t = std::max(t, 50);  // the first bucket has no model
  const auto model = model_of(wider.view(), 50, 100);
  ASSERT_TRUE(model.bucket[0].mean.empty());
  EXPECT_EQ(test::message_of([&] { plasticity_profile(ctx, model, rows.view()); }),
            "plasticity_profile: a query model of head size 5 for keys of size 4");
  EXPECT_EQ(test::message_of([&] { bucket_table(ctx, model, rows.view()); }),
            "bucket_table: a query model of head size 5 for keys of size 4");
  EXPECT_EQ(test::message_of([&] { bucket_table(ctx, std::vector<query_model>{}, as_layer(rows.view())); }),
            "bucket_table: 0 query models for 1 query heads");
  auto cut = model;
  cut.bucket.pop_back();
  EXPECT_EQ(test::message_of([&] { plasticity_profile(ctx, cut, wider.view()); }),
            "plasticity_profile: a query model of 1 buckets has edges of 2");
}

}  // namespace
