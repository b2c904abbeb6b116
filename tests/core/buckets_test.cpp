// SPDX-License-Identifier: MIT
#include "qkgeom/core/buckets.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

TEST(buckets, uniform_and_its_last_edge) {
  const auto e = uniform_buckets{10}.edges(25);
  EXPECT_THAT(e.edges(), testing::ElementsAre(0, 10, 20, 25));
  EXPECT_EQ(e(0), 0);
  EXPECT_EQ(e(9), 0);
  EXPECT_EQ(e(10), 1);
  EXPECT_EQ(e(24), 2);
  EXPECT_EQ(e(25), -1);
  EXPECT_EQ(e(-1), -1);
  EXPECT_DOUBLE_EQ(e.middle(2), 22.5);
  EXPECT_EQ(uniform_buckets{10}.edges(0).count(), 0);
}

TEST(buckets, log2_follows_the_formula) {
  for (const index_t minimum : {1, 4, 16}) {
    const auto e = log2_buckets{minimum}.edges(1000);
    const auto label = [&](index_t t) {
      return std::max(std::floor(std::log2(static_cast<double>(t + 1))), std::log2(static_cast<double>(minimum)));
    };
    for (index_t t = 0; t < 1000; ++t) ASSERT_EQ(static_cast<double>(e(t)), label(t) - label(0)) << t;
  }
}

TEST(buckets, uneven_edges_find_every_position) {
  const bucket_edges e({3, 4, 9, 100});
  for (index_t t = 0; t < 120; ++t) {
    index_t want = -1;
    for (index_t b = 0; b < e.count(); ++b)
      if (t >= e.start(b) && t < e.end(b)) want = b;
    ASSERT_EQ(e(t), want) << t;
  }
}

TEST(buckets, bad_input_is_named) {
  EXPECT_THROW(uniform_buckets{0}.edges(5), error);
  EXPECT_THROW(bucket_edges({3, 3}), error);
  EXPECT_THROW(bucket_edges({3}), error);
  EXPECT_THROW(log2_buckets{0}.edges(5), error);
}

}  // namespace
