// SPDX-License-Identifier: MIT
#include "examples/common/numbers/causes.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom::examples {
namespace {

/// An analysis of two heads over three documents, in which a number is `value` and, without a document, a little off.
trajectory_point point_with(double value, std::vector<head_class> classes) {
  trajectory_point p;
  p.heads = {{0, 0, true}, {0, 1, true}};
  head_values x{"x", {value, 2 * value}, {}};
  for (const double off : {-0.3, 0.1, 0.2}) x.without.push_back({value * (1 + off), 2 * value * (1 + off)});
  p.columns = {x};
  p.classes = std::move(classes);
  p.classes_without = {p.classes, p.classes, p.classes};
  return p;
}

TEST(causes, of_a_mean_add_up_with_errors_of_the_same_documents) {
  const auto mixed = head_class::mixed, content = head_class::content_focused;
  const std::vector<trajectory_point> with{point_with(1, {mixed, mixed}), point_with(2, {mixed, content}),
                                           point_with(-4, {mixed, mixed}), point_with(7, {content, content})};
  const auto split = split_by_cause(with, column_number("x"), {0, 1});
  EXPECT_DOUBLE_EQ(split.none.value, 1.5);
  EXPECT_DOUBLE_EQ(split.all.value, 10.5);
  EXPECT_DOUBLE_EQ(split.change.value, 9);
  EXPECT_DOUBLE_EQ(split.cause[0].value, 1.5 * 0.5 * ((2 - 1) + (7 + 4)));
  EXPECT_DOUBLE_EQ(split.cause[0].value + split.cause[1].value, split.change.value);
  // Every number moves by the same share without a document, so errors do as well.
  EXPECT_NEAR(split.change.error / split.change.value, split.all.error / split.all.value, 1e-12);
  EXPECT_GT(split.change.error, 0);

  const auto size = split_by_cause(with, absolute_column("x"), {0});
  EXPECT_DOUBLE_EQ(size.cause[1].value, 0.5 * ((4 - 1) + (7 - 2)));
  const auto share = split_by_cause(with, class_number(content), {0, 1});
  EXPECT_DOUBLE_EQ(share.change.value, 1);
  EXPECT_DOUBLE_EQ(share.cause[0].value, 0.5 * (0.5 + 1));
}

TEST(causes, of_analyses_of_other_documents_have_no_errors) {
  auto other = point_with(3, {head_class::mixed, head_class::mixed});
  other.blocks.document = {1, 2};
  const auto split = split_by_cause({point_with(1, other.classes), other}, column_number("x"), {0});
  EXPECT_DOUBLE_EQ(split.change.value, 2);
  EXPECT_TRUE(std::isnan(split.change.error));
  other.heads[1].q_head = 5;
  EXPECT_QKGEOM_ERROR("other heads", split_by_cause({point_with(1, other.classes), other}, column_number("x"), {0}));
}

}  // namespace
}  // namespace qkgeom::examples
