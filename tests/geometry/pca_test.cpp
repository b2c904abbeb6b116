// SPDX-License-Identifier: MIT
#include "qkgeom/geometry/pca.hpp"

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

TEST(planted, head_classes_come_back) {
  const auto class_of = [](double q_slope, double k_slope) {
    planted_head spec{.dim = 8, .documents = 8, .rows = 1000, .seed = 5};
    spec.drift_q = {q_slope, 0, 0, 0, 0, 0, 0, 0};
    spec.drift_k = {k_slope, 0, 0, 0, 0, 0, 0, 0};
    spec.root_q.assign(64, 0);
    for (std::size_t i = 0; i < 8; ++i) spec.root_q[i * 9] = 0.5;
    spec.root_q[0] = 1;  // the first coordinate has the largest variance even without drift
    spec.root_k = spec.root_q;
    const auto rows = plant<double>(spec);
    cpu_context ctx{{.threads = 1}};
    return pca(ctx, accumulate(ctx, rows.view(), uniform_buckets{1024}, {.context_length = 8192})).head_class;
  };
  EXPECT_EQ(class_of(2e-3, 2e-3), head_class::position_dominated);
  EXPECT_EQ(class_of(2e-3, 0), head_class::q_positional);
  EXPECT_EQ(class_of(0, 2e-3), head_class::k_positional);
  EXPECT_EQ(class_of(0, 0), head_class::content_focused);
}

TEST(head_class, every_corner_of_the_thresholds) {
  EXPECT_EQ(classify(0.8, -0.9), head_class::position_dominated);
  EXPECT_EQ(classify(-0.8, 0.1), head_class::q_positional);
  EXPECT_EQ(classify(0.8, 0.6), head_class::q_positional);
  EXPECT_EQ(classify(0.1, 0.8), head_class::k_positional);
  EXPECT_EQ(classify(0.5, 0.8), head_class::mixed);
  EXPECT_EQ(classify(0.1, 0.2), head_class::content_focused);
  EXPECT_EQ(classify(0.5, 0.5), head_class::mixed);
  EXPECT_EQ(classify(0.6, 0.6, {.low = 0.5, .high = 0.5}), head_class::position_dominated);
  EXPECT_QKGEOM_ERROR("the threshold low", classify(0.5, 0.5, {.low = 0.7, .high = 0.3}));
  EXPECT_EQ(classify(0.5, 0.5, {.low = 0.6, .high = 0.7}), head_class::content_focused);
}

}  // namespace
