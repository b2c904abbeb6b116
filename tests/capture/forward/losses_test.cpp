// SPDX-License-Identifier: MIT
// Losses against transformers.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "qkgeom/io/json.hpp"
#include "tests/capture/forward/forward_fixture.hpp"

namespace qkgeom {
namespace {

TEST(losses, of_every_family_equal_transformers) {
  const json expected = read_json(std::string(QKGEOM_TEST_DATA) + "/losses.json");
  EXPECT_EQ(expected.size(), 40u);
  for (const auto& [name, values] : expected.items()) {
    const forward_fixture f = family_fixture(name);
    const auto description = f.description();
    const safetensors_file file = f.open();
    const auto ids = file.values<std::int32_t>("ids");
    const checkpoint model(f.folder);
    thread_pool pool(2);
    for (const compute_type type : {compute_type::f32, compute_type::bf16}) {
      const auto pass = cpu_forward_pass(description, model, type, 0, pool);  // the last captured layer does not matter
      pass->check_output();
      std::vector<float> found;
      int layers = 0;
      batch_sinks sinks;
      sinks.rows = [&](std::size_t, index_t, tensor_view<const float>, tensor_view<const float>) { ++layers; };
      sinks.losses = [&](std::size_t, const token_predictions& x) { found = x.loss; };
      pass->run(std::vector<token_span>{ids}, rope_stage::post, sinks);
      ASSERT_EQ(found.size(), ids.size() - 1) << name;
      EXPECT_GT(layers, 1) << name;
      const auto& f32 = values["f32"];
      const auto& bf16 = values["bf16"];
      const double mean = std::accumulate(found.begin(), found.end(), 0.0) / static_cast<double>(found.size());
      const bool exact = type == compute_type::f32;
      EXPECT_NEAR(mean, f32["mean"].get<double>(), exact ? 1e-4 : 2e-2) << name;
      for (std::size_t i = 0; i < values["positions"].size(); ++i) {
        const double x = static_cast<double>(found[values["positions"][i].get<std::size_t>()]);
        if (exact)
          EXPECT_NEAR(x, f32["at"][i].get<double>(), 1e-3) << name << ' ' << i;
        else
          EXPECT_NEAR(x, bf16["at"][i].get<double>(), 0.35) << name << ' ' << i;
      }
    }
  }
}

}  // namespace
}  // namespace qkgeom
