// SPDX-License-Identifier: MIT
#include "qkgeom/stats/document_moments.hpp"

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

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
  cpu_context ctx{{.threads = 2}};
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
