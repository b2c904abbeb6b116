// SPDX-License-Identifier: MIT
#include "qkgeom/stats/moments.hpp"
#include "qkgeom/stats/document_moments.hpp"
#include "tests/common/on_cpu.hpp"
#include "tests/stats/moments_oracle.hpp"

namespace {

using namespace qkgeom;
using test::brute_force;
using test::ctx;
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
  const auto r = accumulate(ctx, rows.view(), uniform_buckets{100});
  EXPECT_THAT(r.q.total.xx, testing::Each(0.0));
  EXPECT_THAT(r.q.total.xt, testing::Each(0.0));
}

TEST(moments, a_bad_row_is_named) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto rows = plant<float>({.dim = 4, .documents = 1, .rows = 600});
    rows.k[4 * 437 + 2] = bad;
    EXPECT_EQ(test::message_of([&] { accumulate(ctx, rows.view(), uniform_buckets{512}); }),
              "k head 0 row 437 holds a value that is not finite");
  }
}

TEST(moments, sizes_whose_products_f64_does_not_hold_are_refused) {
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

/// Every pair of rows of one document, by definition.
std::vector<double> brute_force(const planted_rows<double>& rows, index_t d, const document_blocks& blocks,
                                index_t left_out, double& pairs) {
  const auto n = static_cast<index_t>(rows.k_position.size());
  std::vector<double> sum(d * d);
  pairs = 0;
  for (index_t i = 0; i < n; ++i)
    for (index_t j = 0; j < i; ++j) {
      const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
      if (rows.k_document[a] != rows.k_document[b] || blocks(rows.k_document[a]) == left_out) continue;
      ++pairs;
      for (index_t x = 0; x < d; ++x)
        for (index_t y = 0; y < d; ++y)
          sum[x * d + y] += (rows.k[i * d + x] - rows.k[j * d + x]) * (rows.k[i * d + y] - rows.k[j * d + y]);
    }
  return sum;
}

/// Divides the documents of both sides.
document_blocks divided(const planted_rows<double>& rows, index_t most) {
  auto ids = rows.q_document;
  ids.insert(ids.end(), rows.k_document.begin(), rows.k_document.end());
  return blocks_of(std::move(ids), most);
}

void expect_exact(const planted_rows<double>& rows, index_t d, index_t most) {
  const auto layer = as_layer(rows.view());
  const auto blocks = divided(rows, most);
  const auto found = moments_by_block(ctx, "k", layer.k, layer.k_position, layer.k_document, blocks);
  ASSERT_EQ(found.size(), 1u);
  ASSERT_EQ(static_cast<index_t>(found[0].size()), blocks.count);
  for (index_t left_out = -1; left_out < blocks.count; ++left_out) {
    double pairs = 0;
    const auto expected = brute_force(rows, d, blocks, left_out, pairs);
    const auto got = merged_without(found[0], left_out);
    EXPECT_EQ(got.pairs, pairs);
    EXPECT_LT(dense::norm(dense::difference(got.differences, expected)), 1e-12 * dense::norm(expected));
  }
  const auto whole = accumulate(ctx, layer, uniform_buckets{512}, {.context_length = 8192});
  const auto all = merged_without(found[0], -1).rows;
  EXPECT_EQ(all.count, whole.k[0].total.count);
  EXPECT_LT(dense::norm(dense::difference(all.xx, whole.k[0].total.xx)), 1e-12 * dense::norm(all.xx));
  EXPECT_LT(dense::norm(dense::difference(all.xt, whole.k[0].total.xt)), 1e-12 * dense::norm(all.xt));
}

planted_rows<double> documents(index_t documents) {
  auto rows = plant<double>({.dim = 3, .documents = documents, .rows = 9, .seed = 4});
  for (std::size_t i = 0; i < rows.k_document.size();
       ++i)  // documents differ: the pooled scatter is not that within documents
    for (std::size_t j = 0; j < 3; ++j) rows.k[3 * i + j] += 0.4 * rows.k_document[i] * static_cast<double>(j + 1);
  return rows;
}

TEST(document_moments, differences_are_those_of_every_pair_of_one_document) {
  expect_exact(documents(5), 3, 20);   // each document a block
  expect_exact(documents(7), 3, 3);    // several documents a block
  expect_exact(documents(71), 3, 10);  // more documents than are read at once
}

TEST(document_moments, rows_of_documents_need_not_stand_together) {
  const auto sorted = documents(40);
  auto mixed = sorted;
  const std::size_t n = sorted.k_document.size();
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t from = i * 7 % n;  // 7 shares no factor with n = 360
    mixed.k_document[i] = sorted.k_document[from];
    mixed.k_position[i] = sorted.k_position[from];
    for (std::size_t j = 0; j < 3; ++j) mixed.k[3 * i + j] = sorted.k[3 * from + j];
  }
  expect_exact(mixed, 3, 6);
}

TEST(document_moments, a_document_s_rows_may_lie_beyond_all_others_though_other_documents_have_none) {
  auto rows = documents(40);
  for (std::size_t i = rows.k_document.size() - 4; i < rows.k_document.size(); ++i) rows.k_document[i] = 0;
  rows.q_document.back() = 40;  // a document of queries alone
  expect_exact(rows, 3, 41);
}

TEST(document_moments, ids_are_any_numbers) {
  auto rows = documents(4);
  for (auto* ids : {&rows.q_document, &rows.k_document})
    for (auto& id : *ids) id = 1000 - 17 * id;
  const auto blocks = divided(rows, 3);
  EXPECT_EQ(blocks.document, (std::vector<std::int32_t>{949, 966, 983, 1000}));
  EXPECT_EQ(blocks.count, 3);
  EXPECT_EQ(blocks(1000), 0);
  expect_exact(rows, 3, 3);
  EXPECT_THROW(divided(rows, 0), error);
}

}  // namespace
