// SPDX-License-Identifier: MIT
// Untrained models as the baseline of a trained one, from captures on.
#include "examples/common/numbers/learned.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace qkgeom::examples
