// SPDX-License-Identifier: MIT
// Tile programs by threads that run far ahead of one another, with copies that come early or late: results have the
// bits of threads in step. A missing barrier or wait shows here.
#include <bit>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "tests/backend/compared_contexts.hpp"
#include "tests/backend/fibre_team.hpp"

namespace {

using namespace qkgeom;
using test::copy_time;
using test::thread_order;

constexpr test::thread_schedule schedules[] = {{thread_order::first_comes_first, copy_time::early},
                                               {thread_order::last_comes_first, copy_time::early},
                                               {thread_order::first_comes_first, copy_time::late},
                                               {thread_order::last_comes_first, copy_time::late}};
constexpr uniform_buckets buckets{500};

/// For small groups that share tiles and a group of three tiles; keys have three stages of columns.
template <class F>
void expect_same_under_every_schedule(const F& profile_of, bool split = true) {
  constexpr std::size_t scratch = std::size_t{1} << 30;
  cpu_context cpu{{.threads = 2}};
  for (const auto& [documents, rows] : {std::pair<index_t, index_t>{3, 40}, {1, 400}}) {
    const auto planted = plant<bf16>(test::compared_head(72, documents, rows, 2));
    const auto head = planted.view();
    const auto moments = accumulate(cpu, head, buckets, {.context_length = 1000});
    const auto model = fit_queries(cpu, moments, {.covariance = covariance_kind::joint});
    test::tile_context in_step(scratch, split);
    const auto want = profile_of(in_step, model, head);
    EXPECT_GT(want.buckets.back().pairs, 100);
    for (const auto& schedule : schedules) {
      test::tile_context_on<test::fibre_launcher> threads(scratch, split, schedule);
      SCOPED_TRACE(testing::Message() << rows << ' ' << static_cast<int>(schedule.order)
                                      << static_cast<int>(schedule.copies));
      test::expect_same(profile_of(threads, model, head), want);
    }
  }
}

/// The same for the profile over these pairs.
template <class Pairs>
void expect_same_profile(const Pairs& pairs, const profile_options& options, bool split = true) {
  expect_same_under_every_schedule(
      [&](auto& ctx, const query_model& model, const head_view<bf16>& head) {
        return plasticity_profile(ctx, model, head, pairs, options);
      },
      split);
}

TEST(thread_order, tiles_of_pairs_do_not_depend_on_it) {
  expect_same_profile(all_pairs{}, {});
  expect_same_profile(all_pairs{}, {.heatmap = true});
}

TEST(thread_order, tiles_of_fast_products_do_not_depend_on_it) {
  expect_same_profile(all_pairs{}, {.heatmap = true}, false);
}

TEST(thread_order, tiles_of_weights_do_not_depend_on_it) {
  expect_same_profile(prefix_uniform{}, {.heatmap = true});
  expect_same_profile(device_weighted_pairs{test::odd_weight{}}, {.heatmap = true});
}

TEST(thread_order, tiles_of_terms_do_not_depend_on_it) {
  expect_same_profile(all_pairs{}, {.terms = true});
  expect_same_profile(all_pairs{}, {.heatmap = true, .terms = true});
}

TEST(thread_order, tiles_of_observed_queries_do_not_depend_on_it) {
  expect_same_under_every_schedule([](auto& ctx, const query_model&, const head_view<bf16>& head) {
    return empirical_profile(ctx, head, buckets, 1000);
  });
}

// Sums show neither, but for their rounding.
TEST(thread_order, scales_and_largest_weights_do_not_depend_on_it) {
  constexpr index_t n = 200, width = 3;
  const random_stream draws{.seed = 3};
  std::vector<double> z(2 * n * width);
  for (std::size_t i = 0; i < z.size(); ++i) z[i] = (i < z.size() / 2 ? 1e-3 : 1e4) * draws.uniform(i);
  // Keys along u, which the reflection turns round; two query buckets, the second scales keys by 1e7.
  const std::vector<double> u(2 * width, 1 / std::sqrt(3.0)), factor{1, 1, 1, 1e7, 1e7, 1e7};
  const std::vector<index_t> head{0, 0};
  std::vector<double> y(n * width);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = 1e-3 * draws.uniform(i / width);
  struct by_rank {
    double operator()(const key_pair& p) const { return static_cast<double>(p.i * 1000 + p.j); }
  };
  using weight = backend::given_weight<by_rank>;
  const tile::tile_plan plan({{0, n, 0}});
  const thrust_kernels::tile_batch batch(n, {&plan});
  const std::vector<std::int32_t> key(n);
  const index_t problem = 0;
  const double tau = 500;
  for (const auto& schedule : schedules) {
    const test::fibre_launcher launcher(schedule);
    double scale[2] = {};
    launcher.launch(tile::scale_program<tile::stored_keys>{{z.data(), n, width}, n, scale}, 2);
    EXPECT_EQ(scale[0], 1024);
    EXPECT_EQ(scale[1], std::ldexp(1.0, -13));
    launcher.launch(
        tile::scale_program<tile::scaled_keys>{{{y.data(), head.data(), n, width}, u.data(), factor.data()}, n, scale},
        2);
    EXPECT_EQ(scale[0], 1024);
    EXPECT_EQ(scale[1], std::ldexp(1.0, -13));
    unsigned long long most = 0;
    batch.each_tile(launcher, [&](const tile::tile_list& list) {
      return tile::largest_weight<weight>{list, {key.data(), key.data()}, &tau, &problem, {}, &most};
    });
    EXPECT_EQ(std::bit_cast<double>(most), static_cast<double>((n - 2) * 1000 + n - 1));
  }
}

/// Threads of a block hand a number to their neighbour, with both barriers that this needs or without one.
std::vector<int> handed_on(thread_order order, bool first_barrier, bool second_barrier) {
  test::fibre_block block(64);
  std::vector<int> given(64, -1), got(64, 0);
  block.run(order, [&](int t) {
    for (int round = 0; round < 2; ++round) {
      given[t] = 100 * round + t;
      if (first_barrier) block.wait_for_block();
      got[t] += given[(t + 1) % 64];
      if (second_barrier) block.wait_for_block();
    }
  });
  return got;
}

TEST(thread_order, shows_a_barrier_that_is_missing) {
  using enum thread_order;
  const auto right = handed_on(first_comes_first, true, true);
  EXPECT_EQ(right[5], 112);
  EXPECT_EQ(handed_on(last_comes_first, true, true), right);
  EXPECT_NE(handed_on(first_comes_first, false, true), right);
  EXPECT_NE(handed_on(last_comes_first, true, false), handed_on(first_comes_first, true, false));
}

TEST(thread_order, a_barrier_that_some_never_reach_is_an_error) {
  test::fibre_block block(64);
  EXPECT_THROW(block.run(thread_order::first_comes_first,
                         [&](int t) {
                           if (t != 7) block.wait_for_block();
                         }),
               error);
}

}  // namespace
