// SPDX-License-Identifier: MIT
#include "examples/common/numbers/learned.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "qkgeom/core/random.hpp"

namespace qkgeom::examples {
namespace {

/// A model with one number: `value`, and the means that leave out each document of values around it.
compared_model with(double value, const std::vector<double>& documents, bool untrained) {
  group_number n{"ap_drop", value, {}, {}};
  double sum = 0;
  for (const double d : documents) sum += d;
  const auto count = static_cast<double>(documents.size());
  for (const double d : documents) n.without.push_back(value - sum / count + (sum - d) / (count - 1));
  n.value = value;
  compared_model m;
  m.label = untrained ? "untrained" : "trained";
  m.documents = documents.size();
  m.groups = {{"all", 1, {n}, {}, {}}};
  m.architecture = "one";
  m.untrained = untrained;
  return m;
}

TEST(learned, is_the_difference_from_the_mean_seed_with_both_errors) {
  const std::vector<double> flat(8, 0.0);
  const std::vector<compared_model> models{with(5, flat, false), with(1, flat, true), with(2, flat, true),
                                           with(3, flat, true)};
  const auto found = learned_of(models);
  ASSERT_EQ(found.size(), 4u);  // the model against three seeds, each seed against two
  const auto& l = found[0].numbers.at(0);
  EXPECT_EQ(found[0].seeds, 3u);
  EXPECT_DOUBLE_EQ(l.untrained, 2);
  EXPECT_DOUBLE_EQ(l.learned, 3);
  EXPECT_NEAR(l.document_error, 0, 1e-12);
  EXPECT_DOUBLE_EQ(l.seed_error, std::sqrt(4.0 / 3));
  EXPECT_NEAR(l.high - l.learned, 4.302652729911275 * l.seed_error, 1e-9);  // t with 2 degrees of freedom, table
  EXPECT_FALSE(l.is_learned());
  EXPECT_EQ(found[1].seeds, 2u);
  EXPECT_DOUBLE_EQ(found[1].numbers.at(0).learned, 1 - 2.5);
}

TEST(learned, one_seed_gives_no_interval_and_another_architecture_no_baseline) {
  const std::vector<double> d{1, 2, 3, 4};
  auto other = with(1, d, true);
  const auto one = learned_of({with(5, d, false), other});
  ASSERT_EQ(one.size(), 1u);
  EXPECT_TRUE(std::isnan(one[0].numbers.at(0).low));
  EXPECT_FALSE(one[0].numbers.at(0).is_learned());
  EXPECT_GT(one[0].numbers.at(0).document_error, 0);
  other.architecture = "another";
  EXPECT_TRUE(learned_of({with(5, d, false), other}).empty());
}

/// Models whose seeds have deviation 1 and whose documents have error 0.5: an untrained one in the model's place has 0
/// in its interval 95 times in 100 and more, and a shift of 20 is always seen.
TEST(learned, an_untrained_model_as_the_model_has_learned_nothing) {
  const random_stream stream{.seed = 5, .use = draw::planted};
  std::uint64_t at = 0;
  constexpr int trials = 600, documents = 6;
  int inside = 0, seen = 0;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<compared_model> models;
    for (int seed = 0; seed < 5; ++seed) {
      std::vector<double> own;
      double mean = 0;
      for (int i = 0; i < documents; ++i) {
        own.push_back(0.5 * std::sqrt(double{documents}) * stream.normal(at++));
        mean += own.back() / documents;
      }
      models.push_back(with(stream.normal(at++) + mean, own, seed > 0));
    }
    inside += !learned_of(models)[0].numbers.at(0).is_learned();
    models[0].groups[0].numbers[0].value += 20;
    for (double& v : models[0].groups[0].numbers[0].without) v += 20;
    seen += learned_of(models)[0].numbers.at(0).is_learned();
  }
  EXPECT_GE(inside, 0.93 * trials);  // 2.2 standard errors of 600 draws below 0.95
  EXPECT_LT(inside, trials);
  EXPECT_EQ(seen, trials);
}

}  // namespace
}  // namespace qkgeom::examples
