// SPDX-License-Identifier: MIT
#include "qkgeom/adapt/span.hpp"

#include <gtest/gtest.h>

#include <span>
#include <utility>
#include <vector>

namespace {

using namespace qkgeom;

template <class X>
concept viewed_as_vector = requires(X&& x) {
  as_view(std::forward<X>(x));
};
template <class X>
concept cut_into_rows = requires(X&& x) {
  as_matrix(std::forward<X>(x), index_t{2});
};

TEST(adapt, spans_and_vectors) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(as_matrix(x, 2)(2, 1), 6);
  EXPECT_EQ(as_view(std::span<const float>(x)).size, 6);
  std::vector<float> y{1, 2, 3, 4};
  const std::span<float> of_y(y);
  EXPECT_EQ(as_view(of_y).data, y.data());
  EXPECT_EQ(as_matrix(of_y, 2)(1, 0), 3);
  EXPECT_EQ(as_view(std::span<float, 2>(y.data(), 2)).size, 2);
  EXPECT_THROW(as_matrix(x, 4), error);
}

TEST(adapt, spans_are_viewed_and_temporary_vectors_are_not) {
  using vector = std::vector<float>;
  static_assert(viewed_as_vector<vector&> && viewed_as_vector<const vector&> && !viewed_as_vector<vector> &&
                !viewed_as_vector<const vector>);
  static_assert(viewed_as_vector<std::span<float>> && viewed_as_vector<std::span<const float>> &&
                viewed_as_vector<std::span<float, 4>>);
  static_assert(cut_into_rows<const vector&> && !cut_into_rows<vector> && cut_into_rows<std::span<float>>);
}

}  // namespace
