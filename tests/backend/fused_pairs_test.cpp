// SPDX-License-Identifier: MIT
// The programs that cuda_context launches, run on the host from the same source, against cpu_context.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/backend/detail/thrust_fused_observed.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "tests/backend/compared_contexts.hpp"
#include "tests/backend/host_engine.hpp"

namespace {

using namespace qkgeom;
using test::distance;
using test::moments_of;

/// cpu_context whose pair sums are the fused ones.
class fused_context : public cpu_context {
 public:
  explicit fused_context(std::size_t scratch = std::size_t{1} << 30) : cpu_context({.threads = 2}), scratch_(scratch) {}

  template <class T>
  std::vector<pair_sums> empirical_pairs(const tensor_view<const T>& q, const tensor_view<const T>& k,
                                         const key_groups& groups, const std::vector<empirical_problem>& problems) {
    return thrust_kernels::fused_observed<test::host_engine, T, memory_space::host>(engine_, scratch_, q, k, groups,
                                                                                    problems)();
  }

 private:
  std::size_t scratch_;
  test::host_engine engine_;
};

TEST(fused_pairs, observed_queries_give_the_sums_of_the_cpu) {
  cpu_context cpu{{.threads = 2}};
  fused_context fused;
  for (const auto& [dim, examples, rows] : {std::array<index_t, 3>{24, 3, 90}, {8, 9, 20}, {16, 2, 300}})
    for (const bool across : {false, true})
      for (const auto window : {std::optional<index_t>(), std::optional<index_t>(300)}) {
        const auto planted = plant<bf16>(test::compared_head(dim, examples, rows, 20));
        auto head = planted.view();
        head.window = window;
        const auto want = empirical_profile(cpu, head, uniform_buckets{150}, 1000, {.across_examples = across});
        const auto got = empirical_profile(fused, head, uniform_buckets{150}, 1000, {.across_examples = across});
        EXPECT_LE(distance(got, want), 1e-5);
        EXPECT_LE(test::distance_of_errors(got, want), 1e-5);
        EXPECT_GT(want.buckets.back().pairs, 100);
      }
}

/// Small integers, in pairs of a key and its opposite, so that scores are exact and many of them tie.
planted_rows<bf16> rows_with_ties(index_t examples, index_t rows) {
  auto planted = plant<bf16>(test::compared_head(4, examples, rows, 0));
  const random_stream draws{.seed = 5};
  for (std::size_t i = 0; i < planted.k.size(); ++i) {
    const auto key = i / 4 / 2, c = i % 4;
    const auto x = static_cast<float>(draws.below(4 * key + c, 5)) - 2.0f;
    planted.k[i] = bf16::round(i / 4 % 2 == 0 ? x : -x);
    planted.q[i] = bf16::round(static_cast<float>(draws.below((std::uint64_t{1} << 32) + i, 5)) - 2.0f);
  }
  return planted;
}

TEST(fused_pairs, a_score_wins_ties_or_loses) {
  for (const float x : {1e-25f, 1.0f, 3e38f})
    for (const float y : {-x, 0.0f, std::nextafter(x, 0.0f)}) {
      EXPECT_EQ(tile::wins(x, y), 1);
      EXPECT_EQ(tile::wins(y, x), 0);
      EXPECT_EQ(tile::wins(x, x), 0.5);
    }
}

TEST(fused_pairs, observed_queries_that_tie_count_one_half) {
  cpu_context cpu{{.threads = 2}};
  fused_context fused;
  for (const auto& [examples, rows] : {std::pair<index_t, index_t>{3, 40}, {1, 600}}) {
    const auto planted = rows_with_ties(examples, rows);
    const auto want = empirical_profile(cpu, planted.view(), uniform_buckets{150}, 1000);
    EXPECT_LE(distance(empirical_profile(fused, planted.view(), uniform_buckets{150}, 1000), want), 1e-12);
  }
}

TEST(fused_pairs, observed_queries_do_not_depend_on_how_laws_share_launches) {
  fused_context one, small(std::size_t{1} << 16);
  const auto planted = plant<f16>(test::compared_head(12, 4, 70, 1));
  const auto a = empirical_profile(one, planted.view(), uniform_buckets{150}, 1000);
  const auto b = empirical_profile(small, planted.view(), uniform_buckets{150}, 1000);
  for (std::size_t i = 1; i < a.buckets.size(); ++i) EXPECT_EQ(a.buckets[i].plasticity, b.buckets[i].plasticity);
}

}  // namespace
