// SPDX-License-Identifier: MIT
// Models before training: what their weights are, in every family, and captures of them.
#include "capture/model/untrained.hpp"

#include "capture/model/checkpoint.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "tests/capture/capture_fixture.hpp"
#include "tests/capture/forward/forward_fixture.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
const fs::path every_family = fs::path(QKGEOM_TEST_DATA) / "families";

std::vector<float> drawn(const std::string& name, bool matrix, index_t n, const decoder_description& d = {},
                         std::uint64_t seed = 3, index_t first = 0) {
  std::vector<float> x(n, 7.0f);
  untrained_weights(d, 0.02, seed).read(name, matrix, first, n, x.data());
  return x;
}

TEST(untrained_weights, are_normal_draws_by_name_and_entry) {
  constexpr index_t n = 40000;
  const std::string name = "layers.0.self_attn.q_proj.weight";
  const auto a = drawn(name, true, n);
  const auto part = drawn(name, true, 11, {}, 3, 1234);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), a.begin() + 1234));
  const auto mean_product = [&](const std::vector<float>& x, const std::vector<float>& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0) / n;
  };
  auto next = a, square = a;
  std::rotate(next.begin(), next.begin() + 1, next.end());
  for (float& x : square) x *= x;
  const double size = 0.02, bound = 4 / std::sqrt(double{n});
  EXPECT_LT(std::abs(mean_product(a, std::vector<float>(n, 1.0f))), size * bound);
  for (const auto& other : {next, drawn("layers.0.self_attn.k_proj.weight", true, n), drawn(name, true, n, {}, 4)})
    EXPECT_LT(std::abs(mean_product(a, other)), size * size * bound);
  EXPECT_NEAR(mean_product(a, a), size * size, size * size * std::sqrt(2.0) * bound);
  EXPECT_NEAR(mean_product(square, square), 3 * std::pow(size, 4), std::pow(size, 4) * std::sqrt(96.0) * bound);
}

TEST(untrained_weights, of_norms_and_biases_are_what_leaves_rows_as_they_are) {
  decoder_description gemma;
  gemma.norm = norm_kind::gemma;
  for (const auto& [name, of_llama, of_gemma] : {std::tuple{"norm.weight", 1.0f, 0.0f},
                                                 {"layers.1.self_attn.q_proj.bias", 0.0f, 0.0f},
                                                 {"layers.1.mlp.gate.e_score_correction_bias", 0.0f, 0.0f},
                                                 {"layers.0.mlp.experts.0.down_proj.bias", 0.0f, 0.0f},
                                                 {"layers.0.linear_attn.dt_bias", 1.0f, 1.0f},
                                                 {"layers.0.linear_attn.norm.weight", 1.0f, 1.0f}}) {
    EXPECT_EQ(drawn(std::string("model.") + name, false, 5), std::vector<float>(5, of_llama)) << name;
    EXPECT_EQ(drawn(std::string("model.") + name, false, 5, gemma), std::vector<float>(5, of_gemma)) << name;
  }
  for (const std::string name : {"model.layers.0.self_attn.sinks", "model.layers.0.mlp.router.bias"})
    EXPECT_EQ(drawn(name, false, 5), drawn(name, true, 5)) << "drawn as matrices are: " << name;
}

TEST(untrained_weights, fading_and_steps_of_delta_nets_are_uniform_draws) {
  double mean = 0, mean_step = 0;
  for (const float v : drawn("model.layers.0.linear_attn.A_log", false, 4000)) {
    const double rate = std::exp(double{v});
    EXPECT_TRUE(rate > 0.0099 && rate < 16.01) << rate;
    mean += rate / 4000;
  }
  EXPECT_NEAR(mean, 8, 0.3);
  decoder_description olmo;
  olmo.delta = delta_description{.all_apart = true};
  for (const float v : drawn("model.layers.0.linear_attn.dt_bias", false, 4000, olmo)) {
    const double step = std::log1p(std::exp(double{v}));
    EXPECT_TRUE(step > 0.000999 && step < 0.1001) << step;
    mean_step += std::log10(step) / 4000;
  }
  EXPECT_NEAR(mean_step, -2, 0.05);
  EXPECT_EQ(drawn("model.layers.0.mamba.A_log", false, 2, olmo, 3, 2)[1], std::log(4.0f)) << "of state spaces";
}

TEST(untrained_weights, initializer_range_is_the_text_models) {
  EXPECT_EQ(initializer_range({{"hidden_size", 8}}), 0.02);
  EXPECT_EQ(initializer_range({{"initializer_range", 0.1}}), 0.1);
  EXPECT_EQ(initializer_range({{"initializer_range", 0.1}, {"text_config", {{"initializer_range", 0.3}}}}), 0.3);
  EXPECT_THROW(initializer_range({{"initializer_range", -1}}), error);
}

/// Every family runs on drawn weights, its output matrix included, without a file of weights.
TEST(untrained_weights, every_family_runs) {
  int run = 0;
  for (const auto& entry : fs::directory_iterator(every_family)) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    const auto config = read_json(entry.path() / "config.json");
    const auto model = read_description(config);
    const checkpoint weights(untrained_weights(model, initializer_range(config), 2));
    thread_pool pool(1);
    const auto pass = cpu_forward_pass(model, weights, compute_type::f32, model.n_layers() - 1, pool);
    pass->check_output();
    batch_sinks sinks;
    double loss = 0;
    sinks.losses = [&](std::size_t, const token_predictions& found) { loss = found.loss.at(0); };
    const std::vector<std::int32_t> ids{1, 2, 3};
    const token_span document(ids);
    pass->run({&document, 1}, rope_stage::post, sinks);
    // Small drawn weights leave all words about as likely.
    EXPECT_NEAR(loss, std::log(static_cast<double>(model.vocabulary)), 1) << entry.path();
    ++run;
  }
  EXPECT_GE(run, 25);
}

/// A model's folder without weights.
class untrained_capture : public test::capture_test {
 protected:
  untrained_capture() {
    options.model.path = folder / "model";
    test::copy_model(options.model.path);
    fs::remove(options.model.path / "model.safetensors");
    test::write_books(folder / "books.jsonl", 2);
    options.inputs.jsonl = folder / "books.jsonl";
    options.selection.max_length = 256;
    options.selection.layers = {0, 3};
    options.model.untrained = 11;
  }
};

TEST_F(untrained_capture, has_the_same_bits_on_any_number_of_threads_and_says_so) {
  run();
  const auto first = test::contents_of(options.run.out);
  const auto manifest = capture::open(options.run.out).manifest();
  EXPECT_EQ(manifest.model.name, "model untrained 11");
  EXPECT_EQ(manifest.extra["untrained"], json({{"seed", 11}, {"initializer_range", 0.02}}));
  options.run.out = folder / "again";
  options.run.threads = 1;
  run();
  EXPECT_EQ(test::contents_of(options.run.out), first);
  options.run.resume = true;
  EXPECT_TRUE(run().was_complete);
  options.model.untrained = 12;
  EXPECT_THAT(refusal(), HasSubstr("other settings"));
}

TEST_F(untrained_capture, is_never_read_as_one_with_another_seeds) {
  options.model.name = "one";
  run();
  options.model.untrained = 12;
  options.run.out = folder / "again";
  run();
  const std::vector<fs::path> both{folder / "out", folder / "again"};
  EXPECT_QKGEOM_ERROR("seed of untrained weights", capture_set::open(both));
}

}  // namespace
}  // namespace qkgeom
