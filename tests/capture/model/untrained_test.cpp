// SPDX-License-Identifier: MIT
// Models before training: what their weights are, in every family, and captures of them.
#include "capture/model/untrained.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "capture/model/checkpoint.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "tests/capture/capture_fixture.hpp"
#include "tests/capture/forward/forward_fixture.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
const fs::path every_family = fs::path(QKGEOM_TEST_DATA) / "families";

TEST(untrained_weights, are_normal_draws_by_name_and_entry) {
  const untrained_weights w(decoder_description{}, 0.02, 3);
  constexpr index_t n = 40000;
  std::vector<float> a(n), part(11), other(n), reseeded(n);
  w.read("layers.0.self_attn.q_proj.weight", true, 0, n, a.data());
  w.read("layers.0.self_attn.q_proj.weight", true, 1234, 11, part.data());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), a.begin() + 1234));
  w.read("layers.0.self_attn.k_proj.weight", true, 0, n, other.data());
  untrained_weights(decoder_description{}, 0.02, 4)
      .read("layers.0.self_attn.q_proj.weight", true, 0, n, reseeded.data());
  double mean = 0, square = 0, fourth = 0, with_other = 0, with_reseeded = 0, with_next = 0;
  for (index_t i = 0; i < n; ++i) {
    const double x = a[i] / 0.02;
    mean += x / n;
    square += x * x / n;
    fourth += x * x * x * x / n;
    with_other += x * other[i] / 0.02 / n;
    with_reseeded += x * reseeded[i] / 0.02 / n;
    with_next += x * a[(i + 1) % n] / 0.02 / n;
  }
  const double error = 1 / std::sqrt(double{n});
  for (const double zero : {mean, with_other, with_reseeded, with_next}) EXPECT_LT(std::abs(zero), 4 * error);
  EXPECT_NEAR(square, 1, 4 * std::sqrt(2.0) * error);
  EXPECT_NEAR(fourth, 3, 4 * std::sqrt(96.0) * error);
}

TEST(untrained_weights, norms_multiply_by_one_and_biases_are_zero) {
  decoder_description gemma;
  gemma.norm = norm_kind::gemma;
  for (const auto& [model, norm] : {std::pair{decoder_description{}, 1.0f}, std::pair{gemma, 0.0f}}) {
    const untrained_weights w(model, 0.02, 1);
    std::vector<float> x(5, 7.0f);
    w.read("model.norm.weight", false, 0, 5, x.data());
    EXPECT_EQ(x, std::vector<float>(5, norm));
    w.read("model.layers.1.self_attn.q_proj.bias", false, 0, 5, x.data());
    EXPECT_EQ(x, std::vector<float>(5, 0.0f));
    w.read("model.layers.1.mlp.gate.e_score_correction_bias", false, 0, 5, x.data());
    EXPECT_EQ(x, std::vector<float>(5, 0.0f));
  }
}

TEST(untrained_weights, sinks_and_biases_of_routers_are_draws) {
  const untrained_weights w(decoder_description{}, 0.02, 1);
  for (const char* name : {"model.layers.0.self_attn.sinks", "model.layers.0.mlp.router.bias"}) {
    std::vector<float> x(5), drawn(5);
    w.read(name, false, 0, 5, x.data());
    w.read(name, true, 0, 5, drawn.data());
    EXPECT_EQ(x, drawn) << name;
  }
  std::vector<float> x(5, 7.0f);
  w.read("model.layers.0.mlp.experts.0.down_proj.bias", false, 0, 5, x.data());
  EXPECT_EQ(x, std::vector<float>(5, 0.0f));
}

TEST(untrained_weights, delta_nets_fade_by_uniform_draws) {
  decoder_description gemma;
  gemma.norm = norm_kind::gemma;
  const untrained_weights w(gemma, 0.02, 1);
  constexpr index_t n = 4000;
  std::vector<float> x(n);
  const std::string own = "model.layers.0.linear_attn.";
  w.read(own + "A_log", false, 0, n, x.data());
  double mean = 0;
  for (const float v : x) {
    EXPECT_GE(std::exp(v), 0.0099f);
    EXPECT_LE(std::exp(v), 16.01f);
    mean += std::exp(double{v}) / n;
  }
  EXPECT_NEAR(mean, 8, 0.3);
  for (const char* ones : {"dt_bias", "norm.weight"}) {
    w.read(own + ones, false, 0, n, x.data());
    EXPECT_EQ(x, std::vector<float>(n, 1.0f)) << ones;
  }
}

TEST(untrained_weights, steps_of_olmo_hybrid_and_fading_of_state_spaces_are_transformers) {
  decoder_description olmo;
  olmo.delta = delta_description{.all_apart = true};
  const untrained_weights w(olmo, 0.02, 1);
  std::vector<float> x(4000);
  w.read("model.layers.0.linear_attn.dt_bias", false, 0, 4000, x.data());
  double mean = 0;
  for (const float v : x) {
    const double step = std::log1p(std::exp(double{v}));
    EXPECT_TRUE(step > 0.000999 && step < 0.1001) << step;
    mean += std::log10(step) / 4000;
  }
  EXPECT_NEAR(mean, -2, 0.05);
  w.read("model.layers.0.mamba.A_log", false, 2, 2, x.data());
  EXPECT_EQ(x[1], std::log(4.0f));
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
    bool finite = true;
    sinks.rows = [&](std::size_t, index_t, tensor_view<const float> q, tensor_view<const float>) {
      for (index_t i = 0; i < q.dim; ++i) finite = finite && std::isfinite(q.head(0).row(2)[i]);
    };
    double loss = 0;
    sinks.losses = [&](std::size_t, const token_predictions& found) { loss = found.loss.at(0); };
    const std::vector<std::int32_t> ids{1, 2, 3};
    const token_span document(ids);
    pass->run({&document, 1}, rope_stage::post, sinks);
    EXPECT_TRUE(finite) << entry.path();
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
