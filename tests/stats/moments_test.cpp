// SPDX-License-Identifier: MIT
#include "qkgeom/stats/moments.hpp"

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "tests/stats/moments_oracle.hpp"

namespace {

using namespace qkgeom;
using test::brute_force;
using test::expect_near;

planted_head head_with_drift() {
  planted_head h{.dim = 7, .context_length = 1000, .documents = 5, .rows = 90, .seed = 3};
  h.mean_q = {100, -2, 3, 0, 0, 0, 1};
  h.drift_q = {0, 1e-3, 0, 0, -2e-3, 0, 0};
  return h;
}

template <class T>
class moments_of : public testing::Test {};
using element_types = testing::Types<bf16, f16, float, double>;
TYPED_TEST_SUITE(moments_of, element_types);

TYPED_TEST(moments_of, equal_the_definition_for_every_element_type) {
  const auto rows = plant<TypeParam>(head_with_drift());
  const auto head = rows.view();
  cpu_context ctx{{.threads = 2}};
  for (const auto kind : {scatter_kind::full, scatter_kind::diagonal}) {
    const auto m =
        accumulate(ctx, head, uniform_buckets{300}, {.q_bucket = kind, .k_bucket = kind, .context_length = 1000});
    expect_near(m.q.total, brute_force(head.q, head.q_position, 0, 1000), 1e-13);
    expect_near(m.k.total, brute_force(head.k, head.k_position, 0, 1000), 1e-13);
    ASSERT_EQ(m.q.bucket.size(), 4u);
    for (index_t b = 0; b < 4; ++b)
      expect_near(m.q.bucket[b], brute_force(head.q, head.q_position, 300 * b, 300 * (b + 1)), 1e-13);
  }
}

TEST(moments, any_split_merges_to_the_whole) {
  const auto rows = plant<float>(head_with_drift());
  const auto head = rows.view();
  cpu_context ctx{{.threads = 1}};
  const moment_options options{.context_length = 1000};
  const auto whole = accumulate(ctx, head, uniform_buckets{300}, options);
  const auto part = [&](index_t q0, index_t q1, index_t k0, index_t k1) {
    auto h = head;
    h.q = {head.q.row(q0), q1 - q0, 7, 7};
    h.q_position = {head.q_position.data + q0, q1 - q0};
    h.q_document = {head.q_document.data + q0, q1 - q0};
    h.k = {head.k.row(k0), k1 - k0, 7, 7};
    h.k_position = {head.k_position.data + k0, k1 - k0};
    h.k_document = {head.k_document.data + k0, k1 - k0};
    return accumulate(ctx, h, uniform_buckets{300}, options);
  };
  const random_stream s{.seed = 1};
  for (std::uint64_t trial = 0; trial < 20; ++trial) {
    const auto a = static_cast<index_t>(s.below(3 * trial, 450)), b = static_cast<index_t>(s.below(3 * trial + 1, 450));
    const auto low = std::min(a, b), high = std::max(a, b);
    const auto x = part(0, low, 0, high), y = part(low, high, high, 450), z = part(high, 450, 450, 450);
    for (const auto& m : {merge(merge(x, y), z), merge(z, merge(y, x)), merge(x, merge(z, y))}) {
      expect_near(m.q.total, whole.q.total, 1e-13);
      expect_near(m.k.total, whole.k.total, 1e-13);
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(m.q.bucket[i].count, whole.q.bucket[i].count);
        if (whole.q.bucket[i].count) expect_near(m.q.bucket[i], whole.q.bucket[i], 1e-12);
      }
    }
  }
}

TEST(moments, do_not_depend_on_the_thread_count) {
  const auto rows = plant<float>({.dim = 33, .documents = 3, .rows = 700});
  cpu_context one{{.threads = 1}}, three{{.threads = 3}};
  EXPECT_TRUE(accumulate(one, rows.view(), uniform_buckets{512}) ==
              accumulate(three, rows.view(), uniform_buckets{512}));
}

TEST(moments, a_batch_is_its_heads) {
  const index_t n = 300, heads = 4, d = 6;
  std::vector<float> q(n * heads * d), k(static_cast<std::size_t>(n * 2 * d));
  const random_stream s{.seed = 8};
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(s.uniform(i));
  for (std::size_t i = 0; i < k.size(); ++i) k[i] = static_cast<float>(s.uniform((1u << 30) + i));
  std::vector<std::int32_t> t(n), e(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < t.size(); ++i) t[i] = static_cast<std::int32_t>(i);
  const vector_view<const std::int32_t> tv{t.data(), n}, ev{e.data(), n};
  const layer_view<float> layer{packed_tensor<const float>(q.data(), n, heads, d),
                                tv,
                                ev,
                                packed_tensor<const float>(k.data(), n, 2, d),
                                tv,
                                ev,
                                {0, 0, 1, 1}};
  cpu_context ctx{{.threads = 2}};
  const auto batch = accumulate(ctx, layer, uniform_buckets{100});
  for (index_t h = 0; h < heads; ++h) {
    const auto one = accumulate(ctx, layer.head(h), uniform_buckets{100});
    EXPECT_TRUE(one.q == batch.q[h]);
    EXPECT_TRUE(one.k == batch.k[layer.key_of_query[h]]);
  }
}

TEST(moments, constants_have_exactly_no_variance) {
  const std::vector<float> x(5000, 0.1f);
  std::vector<std::int32_t> t(1000), e(1000);
  for (std::size_t i = 0; i < t.size(); ++i) t[i] = static_cast<std::int32_t>(i);
  const planted_rows<float> rows{5, x, x, t, e, t, e};
  cpu_context ctx{{.threads = 1}};
  const auto r = accumulate(ctx, rows.view(), uniform_buckets{100});
  EXPECT_THAT(r.q.total.xx, testing::Each(0.0));
  EXPECT_THAT(r.q.total.xt, testing::Each(0.0));
}

TEST(moments, a_bad_row_is_named) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto rows = plant<float>({.dim = 4, .documents = 1, .rows = 600});
    rows.k[4 * 437 + 2] = bad;
    cpu_context ctx{{.threads = 2}};
    EXPECT_EQ(test::message_of([&] { accumulate(ctx, rows.view(), uniform_buckets{512}); }),
              "k head 0 row 437 holds a value that is not finite");
  }
}

TEST(moments, sizes_whose_products_f64_does_not_hold_are_refused) {
  cpu_context ctx{{.threads = 1}};
  const auto sum = [&](double scale) {
    auto rows = plant<double>({.dim = 3, .context_length = 100, .documents = 1, .rows = 20});
    for (double& x : rows.k) x *= scale;
    return accumulate(ctx, rows.view(), uniform_buckets{50});
  };
  for (const double scale : {1e-200, 1e-72, 1e72, 1e200})
    EXPECT_QKGEOM_ERROR("but sizes must lie between 1e-70 and 1e+70; scale the rows", sum(scale));
  EXPECT_QKGEOM_ERROR("k head 0 holds values of size ", sum(1e100));
  for (const double scale : {0.0, 1e-68, 1e68}) EXPECT_NO_THROW(sum(scale));
}

TEST(moments, merging_what_does_not_fit_is_refused) {
  cpu_context ctx{{.threads = 1}};
  const auto a = plant<float>({.dim = 4, .documents = 1, .rows = 50}),
             b = plant<float>({.dim = 5, .documents = 1, .rows = 50});
  const auto of = [&](const auto& r, index_t size) {
    return accumulate(ctx, r.view(), uniform_buckets{size}, {.context_length = 8192});
  };
  EXPECT_THROW(merge(of(a, 512), of(b, 512)), error);
  EXPECT_THROW(merge(of(a, 512), of(a, 500)), error);
  // One grid may extend the other if all rows lie inside the shorter one.
  const auto to = [&](index_t length) {
    return accumulate(ctx, a.view(), uniform_buckets{512}, {.context_length = length});
  };
  const auto once = to(8192), both = merge(once, to(16384));
  ASSERT_EQ(both.q.bucket.size(), 32u);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(both.q.bucket[i].count, i < 16 ? 2 * once.q.bucket[i].count : 0);
  EXPECT_THROW(merge(to(1024), to(8192)), error);
  EXPECT_THROW(merge(to(8192), to(1024)), error);
}

}  // namespace
