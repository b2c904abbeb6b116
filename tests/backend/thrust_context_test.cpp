// SPDX-License-Identifier: MIT
// thrust_context and cpu_context: the same tests for both, and one against the other.
#include <omp.h>
#include <thrust/system/omp/execution_policy.h>

#include "qkgeom/backend/thrust_context.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/plasticity/bucket_table.hpp"
#include "qkgeom/rotary/rotation_between.hpp"
#include "tests/backend/compared_contexts.hpp"
#include "tests/rotary/compared_grip.hpp"
#include "tests/stats/moments_oracle.hpp"

namespace {

using namespace qkgeom;
using test::moments_of;
using omp_policy = std::remove_cvref_t<decltype(thrust::omp::par)>;
using omp_context = thrust_context<omp_policy>;

template <context Context>
Context make() {
  if constexpr (std::is_same_v<Context, cpu_context>)
    return cpu_context{{.threads = 2}};
  else
    return omp_context{thrust::omp::par, {.threads = 2}};
}

template <class T>
planted_rows<T> rows_of(index_t dim, index_t documents, index_t rows, double common = 0.3) {
  return plant<T>(test::compared_head(dim, documents, rows, common));
}

template <context Context>
class every_context : public testing::Test {};
using contexts = testing::Types<cpu_context, omp_context>;
TYPED_TEST_SUITE(every_context, contexts);

TYPED_TEST(every_context, moments_equal_their_definition) {
  auto ctx = make<TypeParam>();
  const auto rows = rows_of<bf16>(9, 3, 400, 50);
  const auto m = moments_of(ctx, rows.view());
  const auto head = rows.view();
  test::expect_near(m.k.total, test::brute_force(head.k, head.k_position, 0, 1000), 1e-14);
  for (index_t b = 0; b < m.buckets.count(); ++b)
    test::expect_near(m.k.bucket[b], test::brute_force(head.k, head.k_position, m.buckets.start(b), m.buckets.end(b)),
                      1e-14);
}

TYPED_TEST(every_context, constants_have_no_variance_and_rows_must_be_finite) {
  auto ctx = make<TypeParam>();
  auto rows = rows_of<float>(5, 2, 40);
  std::fill(rows.k.begin(), rows.k.end(), 0.1f);
  const auto m = moments_of(ctx, rows.view());
  for (const double v : m.k.total.xx) EXPECT_EQ(v, 0);
  EXPECT_EQ(m.k.total.mean[3], static_cast<double>(0.1f));
  rows.k[7 * 5 + 2] = std::nanf("");
  EXPECT_EQ(test::message_of([&] { moments_of(ctx, rows.view()); }), "k head 0 row 7 holds a value that is not finite");
}

TYPED_TEST(every_context, rows_rotate_as_their_vectors_do) {
  auto ctx = make<TypeParam>();
  static_assert(rotates_rows<TypeParam>);
  const index_t rows = 40, heads = 3, dim = 10, stride = 37;
  const random_stream draws{.seed = 8};
  std::vector<bf16> values(rows * stride);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = bf16::round(static_cast<float>(draws.uniform(i) - 0.5));
  std::vector<std::int32_t> at(rows), to(rows);
  for (index_t i = 0; i < rows; ++i)
    at[i] = static_cast<std::int32_t>(3 * i), to[i] = static_cast<std::int32_t>(50 * i);
  const tensor_view<const bf16> x{values.data(), rows, heads, dim, stride, 12};
  const vector_view<const std::int32_t> was{at.data(), rows}, now{to.data(), rows};
  for (const auto& [style, begin] : {std::pair{"half", 0}, {"interleaved", 0}, {"half", 3}, {"interleaved", 4}}) {
    const captured_rope first{style, 6, 1.5, {1, 0.1, 0.003}, begin}, second{style, 6, 2, {0.5, 0.03, 0}, begin};
    for (const captured_rope* applied : {static_cast<const captured_rope*>(nullptr), &first}) {
      auto rotation = rotation_between(applied, second);
      rotation.from = {0.5, 32}, rotation.to = {0.25, 64};
      std::vector<double> y(rows * heads * dim);
      ctx.rotate_rows(x, was, rotation, now, packed_tensor(y.data(), rows, heads, dim));
      for (index_t i = 0; i < rows; ++i)
        for (index_t h = 0; h < heads; ++h) {
          std::vector<double> want(x.head(h).row(i), x.head(h).row(i) + dim);
          vector_rotation::between(applied, at[i], second, to[i])(want.data());
          const double growth = (1 + 0.25 * std::log1p(to[i] / 64)) / (1 + 0.5 * std::log1p(at[i] / 32));
          for (index_t c = 0; c < dim; ++c)
            ASSERT_NEAR(y[(i * heads + h) * dim + c], growth * want[c], 1e-13) << style << " " << i << " " << c;
        }
    }
  }
  std::vector<double> y(rows * heads * dim);
  const captured_rope wide{"half", 12, 1, {1, 1, 1, 1, 1, 1}};
  EXPECT_QKGEOM_ERROR(
      "rotates 12 coordinates of heads of 10",
      ctx.rotate_rows(x, was, rotation_between(nullptr, wide), now, packed_tensor(y.data(), rows, heads, dim)));
  EXPECT_QKGEOM_ERROR("same rows, heads and size",
                      ctx.rotate_rows(x, was, rotation_between(nullptr, wide), {to.data(), rows - 1},
                                      packed_tensor(y.data(), rows, heads, dim)));
}

TYPED_TEST(every_context, plasticity_of_keys_that_are_not_finite_is_refused) {
  auto ctx = make<TypeParam>();
  for (const index_t n : {40, 300, 1300}) {  // groups by differences, by tiles, and shared by the threads
    auto rows = rows_of<float>(5, 2, n);
    const auto model = fit_queries(ctx, moments_of(ctx, rows.view()));
    const std::string of_1 = "plasticity: a key of example 1 is not finite";
    for (const float x : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
      rows.k[5 * (n + 7) + 2] = x;
      const auto head = rows.view();
      EXPECT_EQ(test::message_of([&] { plasticity_profile(ctx, model, head); }), of_1) << n;
      EXPECT_EQ(test::message_of([&] { plasticity_profile(ctx, model, head, prefix_uniform{}); }), of_1) << n;
      EXPECT_EQ(test::message_of([&] { plasticity_profile(ctx, model, head, sampled{.n = 100}); }), of_1) << n;
      EXPECT_EQ(test::message_of([&] { plasticity_profile(ctx, model, head, all_pairs{}, {.terms = true}); }), of_1)
          << n;
      EXPECT_EQ(test::message_of([&] { bucket_table(ctx, model, head); }), of_1) << n;
      EXPECT_EQ(test::message_of([&] { empirical_profile(ctx, head, uniform_buckets{150}, 1000); }), of_1) << n;
      EXPECT_EQ(test::message_of([&] { plasticity_profile(ctx, model, head, all_pairs{.across_documents = true}); }),
                "plasticity: a key of one of the examples is not finite")
          << n;
    }
  }
}

TYPED_TEST(every_context, a_weight_that_throws_or_is_none_is_refused) {
  auto ctx = make<TypeParam>();
  const auto rows = rows_of<double>(4, 3, 20);
  const auto model = fit_queries(ctx, moments_of(ctx, rows.view()));
  for (const double bad : {-1.0, std::nan("")})
    EXPECT_THROW(plasticity_profile(ctx, model, rows.view(), [bad](const key_pair&) { return bad; }), error);
  const auto throws = [](const key_pair& p) -> double {
    require(p.distance() < 100, "too far");
    return 1;
  };
  EXPECT_THROW(plasticity_profile(ctx, model, rows.view(), throws), error);
}

TYPED_TEST(every_context, equal_keys_and_no_keys_have_defined_results) {
  auto ctx = make<TypeParam>();
  auto rows = rows_of<float>(6, 2, 50);
  std::fill(rows.k.begin(), rows.k.end(), 2.5f);
  const auto model = fit_queries(ctx, moments_of(ctx, rows.view()));
  const auto equal = plasticity_profile(ctx, model, rows.view());
  EXPECT_EQ(equal.buckets.back().plasticity, 1);
  EXPECT_TRUE(std::isnan(equal.buckets.front().plasticity));
  auto head = rows.view();
  head.k.rows = head.k_position.size = head.k_document.size = 0;
  EXPECT_TRUE(std::isnan(plasticity_profile(ctx, model, head).buckets.back().plasticity));
}

double distance_and_errors(const plasticity_profile_result& a, const plasticity_profile_result& b) {
  return std::fmax(test::distance(a, b), test::distance_of_errors(a, b));
}

template <class T>
class every_element : public testing::Test {};
using elements = testing::Types<bf16, f16, float, double>;
TYPED_TEST_SUITE(every_element, elements);

TYPED_TEST(every_element, the_contexts_agree) {
  auto cpu = make<cpu_context>();
  auto omp = make<omp_context>();
  const double bound = std::is_same_v<TypeParam, double> ? 1e-12 : 1e-6;
  for (const double common : {0.3, 20.0}) {
    const auto rows = rows_of<TypeParam>(24, 3, 90, common);
    const auto head = rows.view();
    const auto ours = moments_of(omp, head), theirs = moments_of(cpu, head);
    const auto p = pca(omp, ours), q = pca(cpu, theirs);
    for (std::size_t c = 0; c < p.explained_variance.size(); ++c)
      EXPECT_NEAR(p.explained_variance[c], q.explained_variance[c], 1e-12);
    EXPECT_NEAR(std::abs(p.r_q[0]), std::abs(q.r_q[0]), 1e-9);
    const auto a = planar_rotation(omp, ours), b = planar_rotation(cpu, theirs);
    EXPECT_NEAR(a.bias.strength, b.bias.strength, 1e-12 * (1 + std::abs(b.bias.strength)));
    EXPECT_NEAR(a.k.mu_b, b.k.mu_b, 1e-9 * (1 + std::abs(b.k.mu_b)));
    for (const auto kind : {covariance_kind::diagonal, covariance_kind::joint}) {
      const auto model = fit_queries(cpu, theirs, {.covariance = kind});
      EXPECT_NEAR(fit_queries(omp, ours, {.covariance = kind}).sigma2_pos, model.sigma2_pos, 1e-12);
      for (const bool across : {false, true})
        EXPECT_LE(distance_and_errors(plasticity_profile(omp, model, head, all_pairs{across}, {.heatmap = true}),
                                      plasticity_profile(cpu, model, head, all_pairs{across}, {.heatmap = true})),
                  bound);
      EXPECT_LE(distance_and_errors(plasticity_profile(omp, model, head, prefix_uniform{}),
                                    plasticity_profile(cpu, model, head, prefix_uniform{})),
                bound);
      const sampled draws{.n = 300, .seed = 4};
      const profile_options with_terms{.heatmap = true, .terms = true};
      const auto x = plasticity_profile(omp, model, head, draws, with_terms);
      const auto y = plasticity_profile(cpu, model, head, draws, with_terms);
      EXPECT_LE(distance_and_errors(x, y), 1e-12);
      for (std::size_t c = 0; c < x.heatmap.terms.square.size(); ++c)
        EXPECT_NEAR(x.heatmap.terms.square[c], y.heatmap.terms.square[c],
                    1e-9 * (1 + std::abs(y.heatmap.terms.square[c])));
    }
    // In f32 a score may be rounded the other way, which moves one pair's share by one query.
    const double flips = std::is_same_v<TypeParam, double> ? 1e-12 : 1e-4;
    EXPECT_LE(distance_and_errors(empirical_profile(omp, head, uniform_buckets{150}, 1000),
                                  empirical_profile(cpu, head, uniform_buckets{150}, 1000)),
              flips);
  }
}

TEST(thrust_context, weighted_pairs_and_their_terms_are_those_of_the_cpu) {
  auto cpu = make<cpu_context>();
  auto omp = make<omp_context>();
  const auto rows = rows_of<double>(5, 4, 45);
  auto head = rows.view();
  const profile_options options{.heatmap = true, .terms = true};
  for (const auto kind : all_covariance_kinds)
    for (const bool across : {false, true}) {
      head.window = across ? std::optional<index_t>(400) : std::nullopt;
      const auto model = fit_queries(cpu, moments_of(cpu, head), {.covariance = kind});
      const device_weighted_pairs<test::odd_weight> pairs{{}, across};
      const weighted_pairs by_the_host{test::odd_weight{}, across};
      const auto got = plasticity_profile(omp, model, head, pairs, options);
      const auto want = plasticity_profile(cpu, model, head, by_the_host, options);
      const auto erased = plasticity_profile(omp, model, head, by_the_host);
      for (std::size_t b = 1; b < want.buckets.size(); ++b) {
        EXPECT_NEAR(got.buckets[b].plasticity, want.buckets[b].plasticity, 1e-12);
        EXPECT_EQ(got.buckets[b].pairs, want.buckets[b].pairs);
        EXPECT_NEAR(erased.buckets[b].plasticity, got.buckets[b].plasticity, 1e-14);
      }
      test::terms_agree(got, want, 1e-12);
      for (std::size_t c = 0; c < want.heatmap.sum.size(); ++c)
        EXPECT_NEAR(got.heatmap.sum[c], want.heatmap.sum[c], 1e-12 * (1 + want.heatmap.sum[c]));
    }
}

TEST(thrust_context, observed_queries_tie_where_scores_are_equal) {
  cpu_context cpu{{.threads = 2}};
  omp_context omp{thrust::omp::par, {.threads = 2}};
  const auto planted = test::rows_with_ties<float>(3, 60);
  EXPECT_LE(distance_and_errors(empirical_profile(omp, planted.view(), uniform_buckets{150}, 1000),
                                empirical_profile(cpu, planted.view(), uniform_buckets{150}, 1000)),
            1e-12);
}

TEST(thrust_context, results_do_not_depend_on_the_thread_count) {
  const auto rows = rows_of<float>(16, 3, 150);
  const auto run = [&](int threads) {
    omp_set_num_threads(threads);
    auto ctx = make<omp_context>();
    const auto m = moments_of(ctx, rows.view());
    const auto model = fit_queries(ctx, m, {.covariance = covariance_kind::joint});
    const auto p = plasticity_profile(ctx, model, rows.view(), all_pairs{true}, {.heatmap = true, .terms = true});
    return std::pair(m, p);
  };
  const auto one = run(1), three = run(3);
  EXPECT_EQ(one.first, three.first);
  test::expect_same(one.second, three.second);
}

TEST(thrust_context, observed_queries_in_f64_and_of_extreme_sizes) {
  omp_context omp{thrust::omp::par};
  test::expect_f64_where_it_is_needed(omp);
}

TEST(thrust_context, grip_is_the_cpus) {
  omp_context omp{thrust::omp::par, {.threads = 2}};
  test::expect_grip_of_cpu(test::grip_on(omp));
}

// A context of the host takes no views of device memory: they are different types.
template <class Context, memory_space S>
concept takes = requires(Context& ctx, tensor_view<const float, S> x, vector_view<const std::int32_t, S> t,
                         const keys_by_document& g, const std::vector<pair_problem>& p) {
  ctx.moments("k", x, t, std::vector<std::int32_t>{}, 1, scatter_kind::full);
  ctx.gaussian_pairs(x, g, p, pair_request{});
  ctx.host_copy(t);
};
static_assert(takes<cpu_context, memory_space::host> && !takes<cpu_context, memory_space::device>);
static_assert(takes<omp_context, memory_space::host> && !takes<omp_context, memory_space::device>);
static_assert(!std::is_convertible_v<tensor_view<float>, tensor_view<float, memory_space::device>>);
static_assert(!std::is_convertible_v<vector_view<float, memory_space::device>, vector_view<float>>);

}  // namespace
