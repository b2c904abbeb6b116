// SPDX-License-Identifier: MIT
// The programs of pairs and of observed queries that cuda_context launches, on the host, against cpu_context.
#include "qkgeom/backend/detail/thrust/scatter_by_products.hpp"
#include "tests/backend/compared_contexts.hpp"
#include "tests/backend/host_launcher.hpp"
#include "tests/stats/moments_oracle.hpp"

namespace {

using namespace qkgeom;
using test::distance;
using test::moments_of;
using test::tile_context;

struct tile_pairs : testing::Test {
  cpu_context cpu{{.threads = 2}};
  tile_context tiles;
};

TEST_F(tile_pairs, keys_that_are_not_finite_are_refused) {
  auto planted = plant<bf16>(test::compared_head(16, 3, 90, 0));
  const auto model = fit_queries(cpu, moments_of(cpu, planted.view()));
  planted.k[16 * 100 + 3] = bf16::round(std::nanf(""));
  EXPECT_QKGEOM_ERROR("a key of example 1 is not finite", plasticity_profile(tiles, model, planted.view()));
  EXPECT_QKGEOM_ERROR("a key of example 1 is not finite",
                      plasticity_profile(tiles, model, planted.view(), sampled{.n = 50}));
  EXPECT_QKGEOM_ERROR("a key of example 1 is not finite",
                      empirical_profile(tiles, planted.view(), uniform_buckets{150}, 1000));
}

// GPUs of compute capability 8.6, 8.9 and 12 have the least shared memory per block, 99 KiB.
TEST_F(tile_pairs, tiles_fit_into_the_shared_memory_of_every_gpu) {
  const auto fits = [](const auto& program) { EXPECT_LE(program.shared_bytes(), 99 * 1024); };
  using tile::pair_tiles;
  using later = backend::given_weight<prefix_weight>;
  using odd = backend::given_weight<test::odd_weight>;
  fits(pair_tiles<true, false>{});
  fits(pair_tiles<true, true>{});
  fits(pair_tiles<true, true, later>{});
  fits(pair_tiles<true, true, odd>{});
  fits(pair_tiles<true, true, backend::no_weight, true>{});
  fits(tile::observed_tiles{});
  fits(tile::largest_weight<odd>{});
}

TEST_F(tile_pairs, weights_are_taken_in_the_tiles) {
  tile_context fast(std::size_t{1} << 30, false);  // a weight takes split products in any case
  for (const auto& [documents, rows] : {std::pair<index_t, index_t>{4, 45}, {2, 300}}) {
    const auto planted = plant<f16>(test::compared_head(20, documents, rows, 5));
    auto head = planted.view();
    for (const bool across : {false, true}) {
      head.window = across ? std::optional<index_t>(400) : std::nullopt;
      const auto model = fit_queries(cpu, moments_of(cpu, head), {.covariance = covariance_kind::joint});
      const auto agree = [&](const auto& pairs) {
        const auto want =
            plasticity_profile(cpu, model, head, pairs, {.heatmap = true, .precision = pair_precision::f64});
        const auto got = plasticity_profile(tiles, model, head, pairs, {.heatmap = true});
        const auto alone = plasticity_profile(tiles, model, head, pairs);
        EXPECT_EQ(plasticity_profile(fast, model, head, pairs, {.heatmap = true}).heatmap.sum, got.heatmap.sum);
        for (std::size_t c = 0; c < want.heatmap.sum.size(); ++c) {
          EXPECT_NEAR(got.heatmap.weight[c], want.heatmap.weight[c], 1e-10 * want.heatmap.weight[c]);
          EXPECT_NEAR(got.heatmap.sum[c], want.heatmap.sum[c], 1e-5 * want.heatmap.weight[c]);
        }
        for (std::size_t b = 1; b < want.buckets.size(); ++b) {
          const auto &x = got.buckets[b], &y = want.buckets[b];
          EXPECT_NEAR(x.plasticity, y.plasticity, 1e-5);
          EXPECT_EQ(x.plasticity, alone.buckets[b].plasticity);
          EXPECT_EQ(x.pairs, y.pairs);
          for (std::size_t e = 0; e < y.document_weight.size(); ++e)
            EXPECT_NEAR(x.document_weight[e], y.document_weight[e], 1e-12 * y.document_weight[e]);
        }
      };
      agree(device_weighted_pairs<test::odd_weight>{{}, across});
      agree(prefix_uniform{across});
    }
  }
}

TEST_F(tile_pairs, a_weight_that_is_none_is_refused_by_its_pair) {
  const auto planted = plant<float>(test::compared_head(8, 3, 60, 0));
  const auto model = fit_queries(cpu, moments_of(cpu, planted.view()));
  struct negative {
    double operator()(const key_pair& p) const { return p.document_j == 1 && p.j == 4 ? -2.0 : 1.0; }
  };
  EXPECT_QKGEOM_ERROR("must be a finite number of at least 0, not -2",
                      plasticity_profile(tiles, model, planted.view(), device_weighted_pairs{negative{}}));
}

TEST_F(tile_pairs, terms_are_taken_in_the_tiles) {
  for (const auto kind : all_covariance_kinds)
    for (const auto& [documents, rows] : {std::pair<index_t, index_t>{4, 45}, {1, 300}}) {
      const auto planted = plant<bf16>(test::compared_head(20, documents, rows, 5));
      const auto head = planted.view();
      const auto model = fit_queries(cpu, moments_of(cpu, head), {.covariance = kind});
      const auto want = plasticity_profile(cpu, model, head, all_pairs{}, {.terms = true});
      const auto got = plasticity_profile(tiles, model, head, all_pairs{}, {.terms = true});
      EXPECT_LE(distance(got, want), 1e-5);
      test::terms_agree(got, want, 1e-5);
    }
}

TEST_F(tile_pairs, terms_by_cell_keep_the_sums_of_groups) {
  tile_context small(std::size_t{1} << 16);
  for (const auto kind : {covariance_kind::diagonal, covariance_kind::joint})
    for (const auto& [documents, rows] : {std::pair<index_t, index_t>{4, 45}, {2, 300}}) {
      const auto planted = plant<bf16>(test::compared_head(20, documents, rows, 5));
      const auto head = planted.view();
      const auto model = fit_queries(cpu, moments_of(cpu, head), {.covariance = kind});
      const profile_options options{.heatmap = true, .terms = true};
      const auto want = plasticity_profile(cpu, model, head, all_pairs{}, options).heatmap.terms;
      const auto whole = plasticity_profile(tiles, model, head, all_pairs{}, options);
      const auto& got = whole.heatmap.terms;
      EXPECT_EQ(got.groups, want.groups);
      EXPECT_EQ(got.weight, want.weight);
      EXPECT_EQ(got.weight_square, want.weight_square);
      constexpr std::size_t values = heatmap_terms::values;
      for (std::size_t c = 0; c < want.weight.size(); ++c)
        for (std::size_t v = 0; v < values; ++v) {
          const auto at = c * values + v, first = c * values;
          const bool of_v = v >= 4 && v <= 6;
          const double size = of_v ? want.sum[first + 4] + want.sum[first + 5] : std::abs(want.sum[at]);
          const double squares = of_v ? want.square[first + 4] + want.square[first + 5] : want.square[at];
          EXPECT_NEAR(got.sum[at], want.sum[at], 1e-5 * size);
          EXPECT_NEAR(got.square[at], want.square[at], 4e-5 * squares);
          EXPECT_NEAR(got.product[at], want.product[at], 1e-5 * size * std::sqrt(want.weight_square[c]));
        }
      EXPECT_EQ(got.sum, plasticity_profile(small, model, head, all_pairs{}, options).heatmap.terms.sum);
      const auto alone = plasticity_profile(tiles, model, head, all_pairs{}, {.terms = true});
      for (std::size_t b = 1; b < alone.buckets.size(); ++b)
        EXPECT_EQ(alone.buckets[b].term_sum, whole.buckets[b].term_sum);
    }
}

TEST_F(tile_pairs, pairs_that_cancel_stand_beside_pairs_that_do_not) {
  auto planted = plant<float>(test::compared_head(24, 2, 300, 1));
  const auto model = fit_queries(cpu, moments_of(cpu, planted.view()), {.covariance = covariance_kind::joint});
  const random_stream draws{.seed = 8};
  for (std::size_t key = 1; key < planted.k.size() / 24; ++key)
    for (std::size_t c = 0; c < 24 && key % 3 > 0; ++c)
      planted.k[24 * key + c] = planted.k[24 * (key - 1) + c] + 1e-3f * static_cast<float>(draws.uniform(24 * key + c));
  const profile_options options{.heatmap = true, .precision = pair_precision::f64};
  const auto want = plasticity_profile(cpu, model, planted.view(), all_pairs{}, options);
  EXPECT_LE(distance(plasticity_profile(tiles, model, planted.view(), all_pairs{}, {.heatmap = true}), want), 1e-5);
}

TEST_F(tile_pairs, equal_keys_have_plasticity_1) {
  auto planted = plant<float>(test::compared_head(6, 2, 50, 0));
  const auto model = fit_queries(cpu, moments_of(cpu, planted.view()));
  std::fill(planted.k.begin(), planted.k.end(), 2.5f);
  const auto got = plasticity_profile(tiles, model, planted.view(), all_pairs{}, {.terms = true}).buckets.back();
  EXPECT_EQ(got.plasticity, 1);
  const auto n = got.document_sum.size();
  for (std::size_t e = 0; e < n; ++e) {
    EXPECT_EQ(got.term_sum[e], 0.5 * got.document_weight[e]);
    for (std::size_t p = 1; p < pair_terms; ++p) EXPECT_EQ(got.term_sum[p * n + e], 0);
  }
}

TEST_F(tile_pairs, heads_of_a_layer_share_launches_as_many_as_there_is_room_for) {
  tile_context one, small(std::size_t{1} << 16);
  const auto planted = plant<f16>(test::compared_head(24, 4, 70, 1));
  auto layer = as_layer(planted.view());
  for (auto* x : {&layer.q, &layer.k}) x->heads = 3, x->dim = x->head_stride = 8;
  layer.key_of_query = {2, 2, 0};
  const auto moments = moments_of(cpu, layer);
  const auto joint = fit_queries(cpu, moments, {.covariance = covariance_kind::joint});
  auto models = fit_queries(cpu, moments, {.covariance = covariance_kind::diagonal});
  models[1].reflector.clear();
  const auto agree = [&](const auto& pairs, const profile_options& options) {
    const auto a = plasticity_profile(one, models, layer, pairs, options);
    const auto b = plasticity_profile(small, models, layer, pairs, options);
    const auto want = plasticity_profile(cpu, models, layer, pairs, options);
    for (std::size_t h = 0; h < 3; ++h) {
      EXPECT_LE(distance(a[h], want[h]), 1e-5);
      test::expect_same(a[h], b[h]);
    }
  };
  for (int joint_heads = 0; joint_heads < 3; ++joint_heads) {
    if (joint_heads > 0) models[0] = joint[0];
    if (joint_heads > 1) models = joint;
    agree(all_pairs{true}, {.heatmap = true});
    agree(all_pairs{}, {.heatmap = true, .terms = true});
    agree(sampled{.n = 150, .seed = 2}, {.heatmap = true, .terms = true});
  }
  const auto a = empirical_profile(one, layer, uniform_buckets{150}, 1000);
  const auto b = empirical_profile(small, layer, uniform_buckets{150}, 1000);
  const auto want = empirical_profile(cpu, layer, uniform_buckets{150}, 1000);
  for (std::size_t h = 0; h < 3; ++h) {
    EXPECT_LE(distance(a[h], want[h]), 1e-5);
    EXPECT_EQ(distance(a[h], b[h]), 0);
  }
}

using tile_observed = tile_pairs;

TEST_F(tile_observed, observed_queries_give_the_sums_of_the_cpu) {
  for (const auto& [channels, documents, rows] : {std::array<index_t, 3>{24, 3, 90}, {8, 9, 20}, {16, 2, 300}})
    for (const bool across : {false, true})
      for (const auto window : {std::optional<index_t>(), std::optional<index_t>(300)}) {
        const auto planted = plant<bf16>(test::compared_head(channels, documents, rows, 20));
        auto head = planted.view();
        head.window = window;
        const auto want = empirical_profile(cpu, head, uniform_buckets{150}, 1000, {.across_documents = across});
        const auto got = empirical_profile(tiles, head, uniform_buckets{150}, 1000, {.across_documents = across});
        EXPECT_LE(distance(got, want), 1e-5);
        EXPECT_LE(test::distance_of_errors(got, want), 1e-5);
        EXPECT_GT(want.buckets.back().pairs, 100);
      }
}

TEST_F(tile_observed, a_score_wins_ties_or_loses) {
  for (const float x : {1e-25f, 1.0f, 3e38f})
    for (const float y : {-x, 0.0f, std::nextafter(x, 0.0f)}) {
      EXPECT_EQ(tile::wins(x, y), 1);
      EXPECT_EQ(tile::wins(y, x), 0);
      EXPECT_EQ(tile::wins(x, x), 0.5);
    }
}

TEST_F(tile_observed, observed_queries_that_tie_count_one_half) {
  for (const auto& [documents, rows] : {std::pair<index_t, index_t>{3, 40}, {1, 600}}) {
    const auto planted = test::rows_with_ties<bf16>(documents, rows);
    const auto want = empirical_profile(cpu, planted.view(), uniform_buckets{150}, 1000);
    EXPECT_LE(distance(empirical_profile(tiles, planted.view(), uniform_buckets{150}, 1000), want), 1e-12);
  }
}

TEST_F(tile_observed, f64_and_extreme_sizes_are_summed_in_f64) { test::expect_f64_where_it_is_needed(tiles); }

/// x' x by loops.
struct loop_launcher {
  using slots = std::array<std::vector<double>, 2>;
  std::shared_ptr<slots> host = std::make_shared<slots>();

  void multiply(index_t batch, index_t width, index_t rows, const double* x, double* products) const {
    for (index_t b = 0; b < batch; ++b, x += rows * width, products += width * width)
      for (index_t i = 0; i < width; ++i)
        for (index_t j = 0; j < width; ++j) {
          double sum = 0;
          for (index_t r = 0; r < rows; ++r) sum += x[r * width + i] * x[r * width + j];
          products[i * width + j] = sum;
        }
  }
  void start_copy(int slot, const double* from, index_t n) const { (*host)[slot].assign(from, from + n); }
  const double* copied(int slot) const { return (*host)[slot].data(); }
};

TEST(scatter_by_products, moments_by_products_of_chunks_are_those_of_the_cpu) {
  cpu_context cpu{{.threads = 2}};
  const test::host_launcher launcher;
  const auto planted = plant<bf16>(test::compared_head(20, 3, 400, 100));
  auto rows = as_layer(planted.view()).q;
  rows.heads = 2, rows.dim = rows.head_stride = 10;
  const auto position = planted.view().q_position;
  std::vector<std::int32_t> bucket;  // one bucket is empty, some rows are in none, one holds several chunks
  for (index_t i = 0; i < rows.rows; ++i) bucket.push_back(i % 7 == 0 ? -1 : (i % 2 == 0 ? 0 : 2 + (i % 5 == 0)));
  for (const auto kind : {scatter_kind::full, scatter_kind::diagonal}) {
    const auto want = cpu.moments("q", rows, position, bucket, 4, kind);
    const auto got = thrust_kernels::moments(
        launcher.device(), thrust_kernels::scatter_by_products{loop_launcher{}},
        [&](index_t n, auto&& f) { cpu.for_each(n, f); }, "q", rows, position, bucket, 4, kind);
    for (std::size_t h = 0; h < 2; ++h) {
      test::expect_near(got[h].total, want[h].total, 1e-12);
      for (std::size_t b = 0; b < 4; ++b) test::expect_near(got[h].bucket[b], want[h].bucket[b], 1e-12);
    }
  }
}

}  // namespace
