// SPDX-License-Identifier: MIT
// Each family's odd features: the fixture that agrees with transformers (forward_test.cpp) does so no more when one of
// them is switched off, so that the fixture tests it.
#include "capture/forward/layer_weights.hpp"
#include "tests/capture/forward/forward_fixture.hpp"
#include "tests/common/data_files.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

/// What takes a feature of a family away, by the name that family-features.json has for it.
const std::map<std::string, void (*)(decoder_description&)> feature_changes{
    {"no window",
     [](auto& d) {
       for (auto& l : d.layers) l.window.reset();
     }},
    {"a window in every layer",
     [](auto& d) {
       for (auto& l : d.layers) l.window = 33;
     }},
    {"no scaling of the rotation",
     [](auto& d) {
       d.rope.inv_freq = default_frequencies(d.rope.theta, d.rope.rotary_dim);
       d.rope.attention_factor = 1;
       d.rope.dynamic.reset();
     }},
    {"queries that do not grow", [](auto& d) { d.growth.reset(); }},
    {"shares that are not normalised", [](auto& d) { d.experts->normalised = false; }},
    {"scale of scores by head size", [](auto& d) { d.score_scale.reset(); }},
    {"no bias of q, k, v", [](auto& d) { d.qkv_bias = false; }},
    {"no norm of queries and keys", [](auto& d) { d.qk = qk_norm::none; }},
    {"no bias of the output", [](auto& d) { d.output_bias = false; }},
    {"no attention factor", [](auto& d) { d.rope.attention_factor = 1; }},
    {"two experts chosen", [](auto& d) { d.experts->chosen = 2; }},
    {"rotation in layer 1", [](auto& d) { d.layers[1].rope = true; }},
    {"no window in layer 0", [](auto& d) { d.layers[0].window.reset(); }},
    {"one rotation for all layers", [](auto& d) { d.local_rope = d.rope; }},
    {"the norm of Llama", [](auto& d) { d.norm = norm_kind::llama; }},
    {"no norms of outputs", [](auto& d) { d.names.attention_out_norm = d.names.feed_forward_out_norm = ""; }},
    {"embedding without its scale", [](auto& d) { d.scaled_embedding = false; }},
    {"silu", [](auto& d) { d.act = activation::silu; }},
    {"all pairs rotate", [](auto& d) { d.rope.inv_freq = default_frequencies(1e4, d.head_dim); }},
    {"base 10000 in sliding layers",
     [](auto& d) { d.local_rope->inv_freq = default_frequencies(1e4, d.local_rope->rotary_dim); }},
    {"no norm of values", [](auto& d) { d.value_norm = false; }},
    {"no factors of layers", [](auto& d) { d.layer_factor = false; }},
    {"halves rotate", [](auto& d) { d.rope.interleaved = false; }},
    {"whole rotation",
     [](auto& d) {
       d.rope.rotary_dim = d.head_dim;
       d.rope.inv_freq = default_frequencies(d.rope.theta, d.head_dim);
     }},
    {"one expert chosen", [](auto& d) { d.experts->chosen = 1; }},
    {"no sigmoids of experts", [](auto& d) { d.experts->sigmoids = false; }},
    {"experts times 1", [](auto& d) { d.experts->scale = 1; }},
    {"no shared feed-forward", [](auto& d) { d.experts->shared_width = 0; }},
    {"no rotation in layer 1", [](auto& d) { d.layers[1].rope = false; }},
    {"rates of up to 1", [](auto& d) { d.delta->most_learned = 1; }},
    {"another epsilon of the answers' norm", [](auto& d) { d.delta->norm_eps = 1e-2; }},
    {"no gates of heads", [](auto& d) { d.gated_output = d.gated_heads = false; }},
    {"one set of frequencies for all layers", [](auto& d) { d.local_rope->inv_freq = d.rope.inv_freq; }},
    {"no bias of the convolution", [](auto& d) { d.delta->convolution_bias = false; }},
    {"no least step of time", [](auto& d) { d.delta->least_step = 0; }},
    {"no largest step of time", [](auto& d) { d.delta->most_step = HUGE_VALF; }},
    {"embedding times 1", [](auto& d) { d.embedding_scale = 1; }},
    {"plain residual", [](auto& d) { d.residual_scale = 1; }},
    {"no bias of the feed-forward", [](auto& d) { d.feed_forward_bias = false; }},
    {"no rotation in layer 0", [](auto& d) { d.layers[0].rope = false; }},
    {"rotation in layer 0", [](auto& d) { d.layers[0].rope = true; }},
    {"norm before the rotation", [](auto& d) { d.qk = qk_norm::each_head; }},
    {"base 1000", [](auto& d) { d.rope.inv_freq = default_frequencies(1e3, d.rope.rotary_dim); }},
    {"sequential residual", [](auto& d) { d.parallel_residual = false; }},
    {"no factors of long documents", [](auto& d) { d.rope.longrope.reset(); }},
    {"no factors of short documents", [](auto& d) { d.rope.longrope->context = 1; }},
    {"no cap of scores", [](auto& d) { d.score_cap = 0; }},
    {"no sinks", [](auto& d) { d.sinks = false; }},
    {"gate and up of up to 7", [](auto& d) { d.experts->limit = 7; }},
    {"no bound of gate and up", [](auto& d) { d.experts->limit = 0; }},
    {"no biases of experts", [](auto& d) { d.experts->biases = false; }},
    {"no chunks in layer 0", [](auto& d) { d.layers[0].chunk.reset(); }},
    {"rotation in layer 3", [](auto& d) { d.layers[3].rope = true; }},
    {"growth in layers that rotate", [](auto& d) { d.growth_unrotated = false; }},
    {"scaled outputs of experts", [](auto& d) { d.experts->scales_inputs = false; }},
    {"no gate of the shared feed-forward", [](auto& d) { d.experts->gated_shared = false; }},
    {"rotation of the first channels", [](auto& d) { d.rope.first = 0; }},
    {"latent halves", [](auto& d) { d.latent->pairs = false; }},
    {"one group of experts", [](auto& d) { d.experts->groups = 1; }},
    {"three chosen groups", [](auto& d) { d.experts->chosen_groups = 3; }},
    {"latent pairs", [](auto& d) { d.latent->pairs = true; }},
    {"no bias of latent rows", [](auto& d) { d.latent->bias = false; }},
    {"all keys", [](auto& d) { d.indexer->chosen = 300; }},
    {"pairs of the indexer", [](auto& d) { d.indexer->pairs = true; }},
    {"one key less", [](auto& d) { d.indexer->chosen = 39; }},
    {"halves of the indexer", [](auto& d) { d.indexer->pairs = false; }},
    {"tanh gelu", [](auto& d) { d.act = activation::gelu_tanh; }},
    {"parallel residual", [](auto& d) { d.parallel_residual = true; }},
    {"exact gelu", [](auto& d) { d.act = activation::gelu; }},
};

TEST(families, fixtures_fail_without_their_features) {
  std::size_t tried = 0;
  for (const auto& [family, features] : test::json_data("family-features.json").items()) {
    const forward_fixture f = family_fixture(family);
    const safetensors_file fixture = f.open();
    for (const std::string change : features) {
      decoder_description d = f.description();
      feature_changes.at(change)(d);
      double worst = 0;
      for (const auto& [name, ours] : run_fixture(f, d, compute_type::f32)) {
        const auto theirs = widened<float>(fixture, "f32." + name);
        worst = std::max(worst, distance(ours, theirs) / norm(theirs));
      }
      EXPECT_GT(worst, 1e-4) << family << ": " << change;  // what forward_test.cpp allows
      ++tried;
    }
  }
  EXPECT_GE(tried, 153u);
}

/// OLMo 2 rotates in f32 and rounds once: rounding each product gives other bits in layer 0.
TEST(families, olmo2_rotates_in_f32) {
  const forward_fixture f = family_fixture("olmo2");
  decoder_description d = f.description();
  d.rope.exact = false;
  const auto theirs = widened<bf16>(f.open(), "bf16.layer.0.q"),
             ours = run_fixture(f, d, compute_type::bf16)["layer.0.q"];
  std::size_t same = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) same += ours[i] == theirs[i];
  EXPECT_LT(static_cast<double>(same), 0.9 * static_cast<double>(theirs.size()));
}

// Base models are saved without the outer name of their tensors.
TEST(families, checkpoints_of_base_models_are_read) {
  for (const auto& [family, inner] : {std::pair{"llama-linear", ""}, {"gpt-neox", ""}, {"gemma3", "language_model."}}) {
    const forward_fixture f = family_fixture(family);
    const std::string outer = find_prefix(f.description(), checkpoint(f.folder));
    model_weights<bf16> written;
    for (const auto& [name, t] : read_weights(f.folder))
      if (name.starts_with(outer)) written[inner + name.substr(outer.size())] = t;
    const test::scratch_folder folder;
    write_weights(folder.path(), written);
    EXPECT_EQ(run_fixture({f.file, folder.path().string()}, f.description(), compute_type::f32),
              run_fixture(f, f.description(), compute_type::f32))
        << family;
  }
}

// Qwen 3.5 may have the experts of a layer in one tensor, as transformers holds them: output by input, gate before up.
TEST(families, experts_in_one_tensor_are_those_of_tensors_of_their_own) {
  const forward_fixture f = family_fixture("qwen3.5-moe");
  const decoder_description d = f.description();
  const index_t experts = d.experts->count, width = d.experts->width;
  const auto own = read_weights(f.folder);
  model_weights<bf16> joined;
  for (const auto& [name, t] : own) {
    const auto at = name.find(".experts.");
    if (at == name.npos) {
      joined[name] = t;
      continue;
    }
    const bool down = name.ends_with("down_proj.weight"), up = name.ends_with(".up_proj.weight");
    auto& [shape, all] = joined[name.substr(0, at + 9) + (down ? "down_proj" : "gate_up_proj")];
    shape = {experts, down ? d.hidden : 2 * width, down ? width : d.hidden};
    all.resize(shape[0] * shape[1] * shape[2]);
    std::ranges::copy(t.values,
                      all.begin() + (std::stoi(name.substr(at + 9)) * shape[1] + (up ? width : 0)) * shape[2]);
  }
  EXPECT_LT(joined.size(), own.size());
  const test::scratch_folder folder;
  write_weights(folder.path(), joined);
  EXPECT_EQ(run_fixture({f.file, folder.path().string()}, d, compute_type::bf16),
            run_fixture(f, d, compute_type::bf16));
}

// GPT-OSS' released weights: experts in MXFP4. The same values written out in bf16, input by output, give the same.
TEST(families, mxfp4_experts_are_the_values_of_the_microscaling_format) {
  const forward_fixture f = family_fixture("gpt-oss");
  constexpr double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::map<std::string, std::vector<std::uint8_t>> bytes_of;
  model_weights<bf16> plain = read_weights(f.folder);
  std::vector<tensor_to_write> quantised;
  for (auto& [name, t] : plain) {
    if (!name.ends_with("experts.gate_up_proj") && !name.ends_with("experts.down_proj")) {
      quantised.push_back(tensor_of(name, t.shape, t.values.data()));
      continue;
    }
    const index_t experts = t.shape[0], in = t.shape[1], rows = t.shape[2], blocks = in / 32;
    auto &codes = bytes_of[name + "_blocks"], &scales = bytes_of[name + "_scales"];
    for (index_t e = 0; e < experts; ++e)
      for (index_t r = 0; r < rows; ++r)
        for (index_t b = 0; b < blocks; ++b) {
          const auto scale = static_cast<std::uint8_t>(122 + (e + r + b) % 4);
          scales.push_back(scale);
          for (index_t i = 0; i < 32; ++i) {
            const auto code = static_cast<std::uint8_t>((e * 7 + r * 5 + i * 11 + i * i) % 16);
            if (i % 2 == 0)
              codes.push_back(code);
            else
              codes.back() = static_cast<std::uint8_t>(codes.back() | code << 4);
            const double size = e2m1[code & 7] * std::pow(2.0, scale - 127);
            t.values[(e * in + b * 32 + i) * rows + r] = bf16::round(static_cast<float>(code & 8 ? -size : size));
          }
        }
    quantised.push_back({name + "_blocks", "U8", {experts, rows, blocks, 16}, std::as_bytes(std::span(codes))});
    quantised.push_back({name + "_scales", "U8", {experts, rows, blocks}, std::as_bytes(std::span(scales))});
  }
  EXPECT_EQ(bytes_of.size(), 12u);
  const test::scratch_folder folder;
  const auto with = [&](const std::vector<tensor_to_write>& tensors, const std::string& name) {
    std::filesystem::create_directory(folder / name);
    write_safetensors(folder / name / "model.safetensors", tensors);
    return checkpoint(folder / name);
  };
  write_weights(folder / "plain", plain);
  thread_pool pool(2);
  EXPECT_NE(with(quantised, "quantised").fingerprint(pool), checkpoint(folder / "plain").fingerprint(pool));
  const auto rows_with = [&](const char* name) {
    return run_fixture({f.file, (folder / name).string()}, f.description(), compute_type::bf16);
  };
  EXPECT_EQ(rows_with("quantised"), rows_with("plain"));
  EXPECT_NE(rows_with("quantised"), run_fixture(f, f.description(), compute_type::bf16));
  for (auto& t : quantised)
    if (t.name.ends_with("_scales")) t.shape.back() *= 2, t.shape.front() /= 2;
  EXPECT_THROW(with(quantised, "lying"), error);
}

}  // namespace
}  // namespace qkgeom
