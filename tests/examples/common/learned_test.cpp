// SPDX-License-Identifier: MIT
// Untrained models as the baseline of a trained one: from captures on, and by numbers written by hand.
#include "examples/common/numbers/learned.hpp"

#include "qkgeom/core/random.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom::examples {
namespace {

TEST(learned_beyond, a_trained_model_differs_and_an_untrained_one_does_not) {
  const test::scratch_folder folder;
  const std::string data = std::string(QKGEOM_EXAMPLE_DATA) + "/kjv-smollm3";
  std::vector<compared_model> models;
  for (int seed = 0; seed < 5; ++seed) {
    const auto out = folder / ("seed" + std::to_string(seed));
    const std::string command = std::string(QKGEOM_BIN) + "/qkgeom-capture --model " + data +
                                "/stage2-step-1400 --jsonl " + data + "/heldout.jsonl --examples 4 --max-length 128" +
                                " --layers 1,3 --bucket-size 16 --rate 8 --threads 2 --out " + out.string() +
                                (seed > 0 ? " --untrained " + std::to_string(seed) : "") + " >/dev/null 2>&1";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    examples::arguments a;
    a.captures = {out};
    a.threads = 2;
    a.covariance = {"joint"};
    const auto found = examples::analyse_capture(a, examples::with_arguments({.geometry_blocks = 4}, a));
    models.push_back(examples::compare_by_capture(found, out.filename().string(), "", {}));
    EXPECT_EQ(models.back().untrained, seed > 0);
    EXPECT_EQ(models.back().architecture, models[0].architecture);
  }
  const auto groups = learned_of(models);
  int untrained_numbers = 0, outside = 0;
  for (const auto& g : groups) {
    EXPECT_EQ(g.seeds, g.model == "seed0" ? 4u : 3u);
    for (const auto& l : g.numbers) {
      if (g.model != "seed0" && !std::isnan(l.low)) {
        ++untrained_numbers;
        outside += l.is_learned();
      }
      // Training gives this model a bias towards later keys a hundred times as large.
      if (g.model == "seed0" && g.group == "all" && l.name == "abs_bias_context_logits") {
        EXPECT_GT(l.low, 5 * l.untrained);
      }
    }
  }
  EXPECT_GT(untrained_numbers, 300);
  // One interval of twenty misses by chance; the numbers of a model go together, so that more of them may at once.
  EXPECT_LT(outside, untrained_numbers / 10);
}

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
