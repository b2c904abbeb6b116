// SPDX-License-Identifier: MIT
// The forward pass of every family against what transformers computes.
#include "capture/forward/products/tiles.hpp"
#include "tests/capture/forward/compared_passes.hpp"

namespace qkgeom {
namespace {

forward_pass_factory on_the_cpu_with(attention_kernel kernel) {
  return [kernel](const decoder_description& d, const checkpoint& model, compute_type type, index_t last,
                  thread_pool& pool) { return cpu_forward_pass(d, model, type, last, pool, kernel); };
}

TEST(forward, f32_agrees_with_transformers) {
  for (const auto& f : forward_fixtures()) {
    test::expect_f32_as_transformers(f, on_the_cpu);
    test::expect_f32_as_transformers(f, on_the_cpu_with(attention_kernel::portable));
  }
}

// Losses take every layer, whatever the last captured one is.
TEST(forward, losses_agree_with_transformers) {
  const forward_pass_factory of_layer_0 = [](const decoder_description& d, const checkpoint& model, compute_type type,
                                             index_t, thread_pool& pool) {
    auto pass = cpu_forward_pass(d, model, type, 0, pool);
    pass->check_output();
    return pass;
  };
  int compared = 0;
  for (const auto& f : forward_fixtures()) {
    const safetensors_file fixture = f.open();
    if (!fixture.metadata().contains("loss")) continue;
    const double theirs = std::stod(fixture.metadata().at("loss"));
    const auto ids = f.ids();
    const token_span all(ids);
    for (const compute_type type : {compute_type::f32, compute_type::bf16}) {
      const auto found =
          test::run_documents(f, {all, all.first(9)}, type, of_layer_0, rope_stage::post, test::asked_for::losses);
      const auto &whole = found.at({0, -1, "loss"}), &begin = found.at({1, -1, "loss"});
      const auto n = std::ssize(ids) - 1;  // the losses, then which tokens were the likeliest
      EXPECT_NEAR(std::accumulate(whole.begin(), whole.begin() + n, 0.0) / static_cast<double>(n), theirs,
                  type == compute_type::f32 ? 1e-5 * theirs : 2e-2)
          << f.file;
      for (std::size_t i = 0; i < 8 && type == compute_type::f32 && !f.description().rope.by_length(); ++i)
        EXPECT_NEAR(whole[i], begin[i], 1e-3) << f.file << ' ' << i;
      ++compared;
    }
  }
  EXPECT_GE(compared, 2 * 49);
}

/// As near to transformers as that is to f32, and its bits in layer 0.
void expect_bf16_near_f32(attention_kernel kernel) {
  for (const auto& f : forward_fixtures()) test::expect_bf16_near_transformers(f, on_the_cpu_with(kernel), 1);
}

TEST(forward, bf16_is_as_near_to_f32_as_transformers_is) { expect_bf16_near_f32(attention_kernel::portable); }

TEST(forward, bf16_is_as_near_with_tile_products) {
  if (!tiles_available()) GTEST_SKIP() << "this CPU has no tile products, or the system does not grant them";
  expect_bf16_near_f32(attention_kernel::without_amx);
  expect_bf16_near_f32(attention_kernel::best);
}

TEST(forward, bits_do_not_depend_on_the_number_of_threads) {
  for (const auto& f : {forward_fixtures()[1], family_fixture("qwen3-moe"), family_fixture("deepseek-v3.2")})
    for (const compute_type type : {compute_type::f32, compute_type::bf16})
      EXPECT_EQ(run_fixture(f, f.description(), type, on_the_cpu, 1),
                run_fixture(f, f.description(), type, on_the_cpu, 3))
          << f.file;
}

// Dynamic rotary tables depend on a document's length, experts on the tokens beside it in a tile.
TEST(forward, documents_that_share_a_visit_of_the_weights_have_the_bits_of_each_alone) {
  for (const std::string name : {"llama-dynamic", "qwen3-moe", "gemma3"})
    for (const compute_type type : {compute_type::f32, compute_type::bf16}) {
      const forward_fixture f = family_fixture(name);
      const auto ids = f.ids();
      const token_span all(ids);
      const std::vector<token_span> documents{all.first(7), all, {}, all.subspan(3), all.last(1)};
      const auto together = test::run_documents(f, documents, type, on_the_cpu);
      test::handed_out alone;
      for (std::size_t i = 0; i < documents.size(); ++i)
        for (const auto& [key, values] : test::run_documents(f, {documents[i]}, type, on_the_cpu))
          alone[{i, std::get<1>(key), std::get<2>(key)}] = values;
      EXPECT_EQ(together.size(), 4u * (2 * static_cast<std::size_t>(f.description().n_layers()) + 1));
      EXPECT_TRUE(together == alone) << name;
    }
}

}  // namespace
}  // namespace qkgeom
