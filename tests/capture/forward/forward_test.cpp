// SPDX-License-Identifier: MIT
// The forward pass of every family against what transformers computes.
#include <gtest/gtest.h>

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

TEST(forward, losses_agree_with_transformers) {
  int compared = 0;
  for (const auto& f : forward_fixtures()) {
    const safetensors_file fixture = f.open();
    if (!fixture.metadata().contains("loss")) continue;
    const auto ids = f.ids();
    const auto found =
        test::run_documents(f, {ids}, compute_type::f32, on_the_cpu, rope_stage::post, test::asked_for::losses)
            .at({0, -1, "loss"});
    double sum = 0;  // the losses, then which tokens were the likeliest
    for (std::size_t t = 0; t + 1 < ids.size(); ++t) sum += double{found[t]};
    const double theirs = std::stod(fixture.metadata().at("loss"));
    EXPECT_NEAR(sum / static_cast<double>(ids.size() - 1), theirs, 1e-5 * theirs) << f.file;
    ++compared;
  }
  EXPECT_GE(compared, 9);
}

/// x (heads, dim) at position t after the rotary embedding and, of queries, the growth with position: by the
/// definition.
void rotate(const decoder_description& d, const layer_description& layer, const rope_table& table, index_t t,
            bool query, float* x) {
  const auto [key_heads, dim] = d.heads_of(layer);
  const index_t heads = query ? d.query_heads : key_heads;
  for (index_t h = 0; layer.rope && h < heads; ++h)
    for (index_t i = 0; i < table.half; ++i) {
      const bool interleaved = d.rope_of(layer).interleaved;
      float* const rotated = x + h * dim + d.rope_of(layer).first;
      float& a = rotated[interleaved ? 2 * i : i];
      float& b = rotated[interleaved ? 2 * i + 1 : i + table.half];
      const double cosine = table.cos[t * table.half + i], sine = table.sin[t * table.half + i], u = a, v = b;
      a = static_cast<float>(u * cosine - v * sine);
      b = static_cast<float>(v * cosine + u * sine);
    }
  if (!query || !d.growth) return;
  const double grown = 1 + d.growth->beta * std::log1p(static_cast<double>(t / d.growth->context));
  for (index_t c = 0; c < heads * dim; ++c) x[c] = static_cast<float>(x[c] * grown);
}

TEST(forward, rows_before_the_rotation_become_those_of_the_attention) {
  auto names = test::varied_families;
  names.insert(names.end(), {"deepseek-v3", "gemma4-text"});
  for (const auto& name : names) {
    const forward_fixture f = family_fixture(name);
    const decoder_description d = f.description();
    const auto ids = f.ids();
    const auto length = static_cast<index_t>(ids.size());
    const auto rows_at = [&](rope_stage stage) {
      return test::run_documents(f, {ids}, compute_type::f32, on_the_cpu, stage, test::asked_for::rows);
    };
    const auto rows = rows_at(rope_stage::pre), attended = rows_at(rope_stage::post);
    int rotated = 0;
    for (index_t l = 0; l < d.n_layers(); ++l)
      for (const bool query : {true, false}) {
        const std::string side = query ? "q" : "k";
        auto x = rows.at({0, l, side});
        const auto before = x;
        const rope_table table = make_rope_table(d.rope_of(d.layers[l]), length, false);
        const index_t width = static_cast<index_t>(x.size()) / length;
        for (index_t t = 0; t < length; ++t) rotate(d, d.layers[l], table, t, query, x.data() + t * width);
        const auto& want = attended.at({0, l, side});
        EXPECT_LE(distance(x, want), 1e-6 * norm(want)) << name << ' ' << l << ' ' << side;
        rotated += distance(before, want) > 0.1 * norm(want);
      }
    EXPECT_GT(rotated, 0) << name;
  }
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
