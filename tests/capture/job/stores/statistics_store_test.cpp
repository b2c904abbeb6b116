// SPDX-License-Identifier: MIT
// The queries whose softmax is measured, and the sums over all queries that they stand for.
#include "capture/job/stores/statistics_store.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom {
namespace {

/// Two heads of layer 3.
struct measured_store {
  capture_manifest manifest;
  decoder_description model;
  std::optional<statistics_store> store;

  measured_store(index_t queries, std::uint64_t seed) {
    manifest.context_length = 250;
    manifest.seed = seed;
    manifest.extra["softmax"]["queries"] = queries;
    auto& layer = manifest.layers.emplace_back();
    layer.layer = 3;
    layer.query_heads = {1, 4};
    store.emplace(manifest, model, uniform_buckets{100}.edges(manifest.context_length), true, false);
  }
};

TEST(statistics_store, draws_one_query_from_each_stretch_of_a_bucket) {
  measured_store few(32, 7);
  const auto drawn = few.store->measured(5, 220, 3).value();
  ASSERT_EQ(drawn.positions.size(), 32u + 32 + 20);  // the last bucket has 20 tokens of the document
  EXPECT_EQ(std::accumulate(drawn.weights.begin(), drawn.weights.end(), index_t{0}), 220);
  for (std::size_t i = 0, start = 0; i < drawn.positions.size();
       start += static_cast<std::size_t>(drawn.weights[i++])) {
    EXPECT_GE(drawn.positions[i], static_cast<std::int32_t>(start));
    EXPECT_LT(drawn.positions[i], static_cast<std::int32_t>(start + drawn.weights[i]));
  }
  EXPECT_EQ(measured_store(32, 7).store->measured(5, 220, 3)->positions, drawn.positions);
  EXPECT_NE(measured_store(32, 8).store->measured(5, 220, 3)->positions, drawn.positions);
  EXPECT_NE(few.store->measured(6, 220, 3)->positions, drawn.positions);
  EXPECT_FALSE(few.store->measured(5, 220, 2));

  const auto all = measured_store(100, 7).store->measured(5, 220, 3).value();
  ASSERT_EQ(all.positions.size(), 220u);
  for (std::int32_t t = 0; t < 220; ++t) EXPECT_EQ(all.positions[t], t);
  EXPECT_EQ(all.weights, std::vector<index_t>(220, 1));
}

TEST(statistics_store, sums_over_the_queries_that_each_one_stands_for) {
  measured_store few(3, 0);
  few.store->add_documents(2, 0);
  const auto what = few.store->measured(0, 220, 3).value();
  ASSERT_EQ(what.weights, (std::vector<index_t>{33, 33, 34, 33, 33, 34, 6, 7, 7}));
  // The fourth and fifth query: head h gives 10 h + m for the fourth, and 100 more for the fifth.
  const index_t width = softmax_measures(what.bins).count();
  std::vector<double> measures;
  for (const double h : {0.0, 1.0})
    for (const double query : {0.0, 100.0})
      for (index_t m = 0; m < width; ++m) measures.push_back(10 * h + query + static_cast<double>(m));
  few.store->add(1, 3, what, 3, measures);
  for (const tensor_to_write& t : few.store->tensors()) {
    const auto* const first_value = reinterpret_cast<const double*>(t.data.data());
    const std::vector<double> values(first_value, first_value + t.data.size() / sizeof(double));
    if (t.name == "layer.3.attention.count") {
      EXPECT_EQ(values, (std::vector<double>{0, 0, 0, 0, 66, 0}));
    } else {
      // (documents, heads, buckets, measures): the second document, head 1, bucket 1.
      const std::size_t a_cell = values.size() / 12;
      const bool entropy = t.name == "layer.3.attention.entropy", first = t.name == "layer.3.attention.first";
      const double m = entropy ? softmax_measures::entropy : first ? 0 : softmax_measures::distances;
      EXPECT_EQ(values[10 * a_cell], 33 * (10 + m) + 33 * (110 + m)) << t.name;
      EXPECT_EQ(values[7 * a_cell], 33 * m + 33 * (100 + m)) << t.name;
      EXPECT_EQ(values[1 * a_cell], 0) << t.name;
    }
  }
}

}  // namespace
}  // namespace qkgeom
