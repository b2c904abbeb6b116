// SPDX-License-Identifier: MIT
#include "capture/model/description.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "capture/job/plan.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Llama 3.2 1B, as its config.json has it.
json llama() {
  return {{"model_type", "llama"},
          {"hidden_size", 2048},
          {"intermediate_size", 8192},
          {"num_hidden_layers", 16},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 8},
          {"head_dim", 64},
          {"vocab_size", 128256},
          {"max_position_embeddings", 131072},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"tie_word_embeddings", true},
          {"rope_scaling",
           {{"rope_type", "llama3"},
            {"factor", 32.0},
            {"low_freq_factor", 1.0},
            {"high_freq_factor", 4.0},
            {"original_max_position_embeddings", 8192}}}};
}
json smollm3() {
  return {{"model_type", "smollm3"}, {"hidden_size", 128},       {"intermediate_size", 384},
          {"num_hidden_layers", 8},  {"num_attention_heads", 8}, {"vocab_size", 1024}};
}
json with(json config, const json& patch) {
  config.merge_patch(patch);
  return config;
}
/// A model of twelve layers, of any family.
json small(const char* type) {
  return {{"model_type", type},       {"hidden_size", 64},        {"intermediate_size", 64}, {"num_hidden_layers", 12},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"vocab_size", 64}};
}
decoder_description read_small(const char* type, const json& patch = json::object()) {
  return read_description(with(small(type), patch));
}
std::string description_refusal(const json& config) {
  return test::message_of([&] { read_description(config); });
}
void expect_refusal(const json& config, const std::string& words) {
  EXPECT_THAT(description_refusal(config), HasSubstr(words)) << config;
}
void expect_near(float x, double expected) { EXPECT_NEAR(x, expected, 1e-6 * expected); }

TEST(description, llama_as_the_hub_has_it) {
  const auto d = read_description(llama());
  EXPECT_EQ(d.hidden, 2048);
  EXPECT_EQ(d.key_heads, 8);
  EXPECT_EQ(d.head_dim, 64);
  EXPECT_EQ(d.n_layers(), 16);
  EXPECT_EQ(d.context, 131072);
  EXPECT_DOUBLE_EQ(d.norm_eps, 1e-5);
  EXPECT_TRUE(d.tied);
  EXPECT_FALSE(d.qkv_bias || d.output_bias || d.feed_forward_bias);
  for (const auto& l : d.layers) EXPECT_TRUE(l.rope && !l.window);
}

TEST(description, llama3_frequencies_have_their_golden_values) {
  const auto f32 = read_description(llama()).rope.inv_freq;  // factor 32, head size 64: blended 15..17
  expect_near(f32[15], 1.29054793e-3);
  expect_near(f32[31], 9.41830673e-8);
  expect_near(f32[14], std::pow(5e5, -28.0 / 64));
  const auto f8 = llama3_frequencies(default_frequencies(5e5, 128), {8, 1, 4, 8192});
  expect_near(f8[28], std::pow(5e5, -56.0 / 128));
  expect_near(f8[29], 2.16657076e-3);
  expect_near(f8[34], 1.78507813e-4);
  expect_near(f8[63], 3.06892599e-7);
  const auto f32_128 = llama3_frequencies(default_frequencies(5e5, 128), {32, 1, 4, 8192});
  expect_near(f32_128[29], 2.118407e-3);
  expect_near(f32_128[34], 9.7082878e-5);
  expect_near(f32_128[63], 7.67231497e-8);
}

TEST(description, yarn_frequencies_have_their_golden_values) {
  // Qwen3 by --rope-scaling takes the given factor; max_position_embeddings does not matter.
  const json qwen{{"model_type", "qwen3"},    {"hidden_size", 64},
                  {"intermediate_size", 64},  {"num_hidden_layers", 1},
                  {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                  {"vocab_size", 64},         {"max_position_embeddings", 40960},
                  {"rope_theta", 1e6}};
  const auto rope = read_description(with_rope_scaling(qwen, "yarn:4.0:32768")).rope;
  EXPECT_NEAR(rope.attention_factor, 1.1386294, 1e-7);
  expect_near(rope.inv_freq[24], 5.37532149e-3);
  expect_near(rope.inv_freq[36], 1.79841156e-4);
  expect_near(rope.inv_freq[63], 3.1023444e-7);
  const auto ministral = read_description({{"model_type", "ministral3"}}).rope;  // the family's default parameters
  EXPECT_DOUBLE_EQ(ministral.attention_factor, 1);
  expect_near(ministral.inv_freq[24], 4.38295445e-3);
  expect_near(ministral.inv_freq[36], 4.96113533e-5);
  expect_near(ministral.inv_freq[63], 7.755861e-8);
  const auto large = yarn_frequencies(1e9, 128, {16, 16384});
  expect_near(large[16], 4.30542577e-3);
  expect_near(large[24], 5.93010708e-5);
  expect_near(large[63], 8.63982642e-11);
}

TEST(description, rope_scaling_replaces_the_scaling_alone) {
  const auto plain = read_description(with_rope_scaling(llama(), "none")).rope;
  EXPECT_EQ(plain.inv_freq, default_frequencies(5e5, 64));
  const auto linear = read_description(with_rope_scaling(llama(), "linear:4")).rope;
  EXPECT_FLOAT_EQ(linear.inv_freq[7], plain.inv_freq[7] / 4);
  EXPECT_DOUBLE_EQ(linear.theta, 5e5);
  const auto dynamic = read_description(with_rope_scaling(llama(), "dynamic:2.5")).rope;
  ASSERT_TRUE(dynamic.dynamic);
  EXPECT_DOUBLE_EQ(dynamic.dynamic->factor, 2.5);
  EXPECT_EQ(dynamic.inv_freq, plain.inv_freq);
  const auto llama3 = read_description(with_rope_scaling(llama(), "llama3:32:1:4:8192")).rope;
  EXPECT_EQ(llama3.inv_freq, llama3_frequencies(plain.inv_freq, {32, 1, 4, 8192}));
  const auto yarn = read_description(with_rope_scaling(llama(), "yarn:4:4096")).rope;
  EXPECT_EQ(yarn.inv_freq, yarn_frequencies(5e5, 64, {4, 4096}));
  EXPECT_DOUBLE_EQ(yarn.attention_factor, 0.1 * std::log(4.0) + 1);
  for (const char* bad : {"", "yarn", "yarn:4", "yarn:4:", "yarn:4:x", "yarn:-4:100", "linear:2:3", "ntk:4", "none:1"})
    EXPECT_THROW(with_rope_scaling(llama(), bad), error) << bad;
}

TEST(description, ministral3_s_queries_grow_whatever_its_scaling) {
  const json silent{{"model_type", "ministral3"}};
  const auto read = [](const json& config) { return read_description(config); };
  const auto released = read(silent);
  ASSERT_TRUE(released.growth);
  for (const char* scaling : {"none", "linear:2", "dynamic:2"}) {
    const auto m = read(with_rope_scaling(silent, scaling));
    ASSERT_TRUE(m.growth) << scaling;
    EXPECT_EQ(m.growth->context, released.growth->context) << scaling;
    EXPECT_EQ(m.growth->beta, released.growth->beta) << scaling;
    EXPECT_DOUBLE_EQ(m.rope.theta, 1e6) << scaling;
  }
  EXPECT_EQ(read(with_rope_scaling(silent, "none")).rope.inv_freq, default_frequencies(1e6, 128));
  EXPECT_EQ(read(with_rope_scaling(silent, "yarn:8:4096")).growth->context, 4096);
  EXPECT_DOUBLE_EQ(read(with_rope_theta(silent, 5e4)).rope.theta, 5e4);
  EXPECT_NE(read(with_rope_theta(silent, 5e4)).rope.inv_freq, released.rope.inv_freq);
  EXPECT_EQ(read(with_rope_theta(silent, 1e6)).rope.inv_freq, released.rope.inv_freq);
}

TEST(description, ministral3_s_growth_counts_from_the_context_that_its_scaling_takes) {
  const json yarn{{"rope_type", "yarn"},
                  {"factor", 4},
                  {"original_max_position_embeddings", 64},
                  {"rope_theta", 1e4},
                  {"llama_4_scaling_beta", 0.1}};
  const json plain{{"model_type", "ministral3"}, {"rope_parameters", yarn}};
  const auto d = read_description(plain);
  EXPECT_EQ(d.growth->context, 64);
  // An empty rope_scaling counts as absent.
  json empty = plain;
  empty["rope_scaling"] = json::object();
  EXPECT_EQ(read_description(empty).growth->context, 64);
  EXPECT_EQ(read_description(empty).rope.inv_freq, d.rope.inv_freq);
  // The field outside the dictionary counts first, if the scaling has an original context.
  json outside = plain;
  outside["original_max_position_embeddings"] = 100;
  EXPECT_EQ(read_description(outside).growth->context, 100);
  EXPECT_EQ(read_description(outside).rope.inv_freq, yarn_frequencies(1e4, 128, {4, 100}));
  EXPECT_EQ(read_description(with_rope_scaling(outside, "none")).growth->context, 100);
  outside["rope_parameters"]["rope_type"] = "default";
  EXPECT_EQ(read_description(outside).growth->context, 64);
  EXPECT_EQ(read_description(with_rope_scaling(outside, "none")).growth->context, 64);
  // An empty rope_scaling does not replace the family's default parameters either.
  const json released{{"model_type", "ministral3"}};
  EXPECT_EQ(read_description(with(released, {{"rope_scaling", json::object()}})).growth->context, 16384);
  EXPECT_EQ(read_description(with_rope_scaling(with(released, {{"rope_scaling", json::object()}}), "none")).rope.theta,
            1e6);
}

TEST(description, gpt_neox_with_an_empty_scaling_keeps_its_parameters) {
  json neox{{"model_type", "gpt_neox"},
            {"hidden_size", 96},
            {"intermediate_size", 96},
            {"num_hidden_layers", 1},
            {"vocab_size", 64},
            {"num_attention_heads", 6},
            {"rope_parameters",
             {{"rope_type", "linear"}, {"factor", 2}, {"rope_theta", 1e3}, {"partial_rotary_factor", 0.5}}}};
  const auto d = read_description(neox).rope;
  EXPECT_EQ(d.rotary_dim, 8);
  neox["rope_scaling"] = json::object();
  EXPECT_EQ(read_description(neox).rope.inv_freq, d.inv_freq);
}

TEST(description, a_mistral3_without_a_text_type_is_a_mistral) {
  json text = llama();
  text.erase("model_type");
  text.erase("rope_scaling");
  const auto m = read_description({{"model_type", "mistral3"}, {"text_config", text}});
  EXPECT_EQ(m.layers[0].window.value_or(0), 4096) << "a mistral's window";
  EXPECT_TRUE(m.tied);
  text.erase("tie_word_embeddings");
  EXPECT_TRUE(read_description({{"model_type", "mistral3"}, {"text_config", text}}).tied) << "the wrapper's default";
  text["tie_word_embeddings"] = false;
  EXPECT_FALSE(read_description({{"model_type", "mistral3"}, {"text_config", text}}).tied);
}

TEST(description, rope_theta_is_replaced_wherever_a_config_has_it) {
  const auto theta = [](const json& config) { return read_description(with_rope_theta(config, 777)).rope.theta; };
  EXPECT_DOUBLE_EQ(theta(llama()), 777);
  json nested = llama();
  nested["rope_parameters"] = {{"rope_theta", 3e5}, {"rope_type", "default"}};
  EXPECT_DOUBLE_EQ(theta(nested), 777);
  const auto scaled = read_description(with_rope_theta(with_rope_scaling(llama(), "linear:4"), 777)).rope;
  EXPECT_FLOAT_EQ(scaled.inv_freq[7], default_frequencies(777, 64)[7] / 4);
  const json pythia{{"model_type", "gpt_neox"},   {"hidden_size", 64}, {"intermediate_size", 128},
                    {"num_attention_heads", 4},   {"vocab_size", 99},  {"num_hidden_layers", 2},
                    {"rotary_emb_base", 10000.0}, {"rotary_pct", 0.25}};
  EXPECT_DOUBLE_EQ(theta(pythia), 777);
  const json gemma{{"model_type", "gemma3_text"}, {"rope_theta", 1e6}};
  EXPECT_THROW(with_rope_theta(gemma, 777), error);
  EXPECT_THROW(with_rope_theta({{"model_type", "gemma4"}, {"text_config", json::object()}}, 777), error);
  EXPECT_THROW(with_rope_scaling({{"model_type", "gemma4_text"}}, "linear:4"), error);
  EXPECT_THROW(with_rope_theta(llama(), -1), error);
}

TEST(description, windows_and_layers_by_family) {
  EXPECT_EQ(read_small("mistral").layers[11].window.value_or(0), 4096);  // absent; null is none
  json none = small("mistral");
  none["sliding_window"] = nullptr;
  EXPECT_FALSE(read_description(none).layers[0].window);
  EXPECT_FALSE(read_small("qwen3", {{"sliding_window", 64}, {"max_window_layers", 3}}).layers[5].window);
  const auto qwen =
      read_small("qwen2", {{"use_sliding_window", true}, {"sliding_window", 64}, {"max_window_layers", 3}});
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(qwen.layers[i].window.has_value(), i >= 3);
  const auto gemma = read_small("gemma3_text", {{"rope_theta", 1e6}, {"rope_local_base_freq", 2e4}});
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(gemma.layers[i].window.has_value(), i != 5 && i != 11);
  EXPECT_DOUBLE_EQ(gemma.rope.theta, 1e6);
  EXPECT_DOUBLE_EQ(gemma.local_rope->theta, 2e4);
  const auto glm = read_small("glm");
  EXPECT_TRUE(glm.qkv_bias && !glm.output_bias && glm.rope.interleaved);
  EXPECT_EQ(glm.rope.rotary_dim, 64);
  const auto pythia = read_small("gpt_neox", {{"rotary_pct", 0.25}, {"rotary_emb_base", 5e3}});
  EXPECT_EQ(pythia.rope.rotary_dim, 4);
  EXPECT_DOUBLE_EQ(pythia.rope.theta, 5e3);
  EXPECT_EQ(pythia.key_heads, 4);
}

TEST(description, defaults_are_the_families_own) {
  json silent = llama();
  for (const char* field : {"num_key_value_heads", "head_dim", "max_position_embeddings", "rms_norm_eps", "rope_theta",
                            "tie_word_embeddings", "rope_scaling"})
    silent.erase(field);
  const auto d = read_description(silent);
  EXPECT_EQ(d.key_heads, 32);
  EXPECT_EQ(d.head_dim, 64);
  EXPECT_EQ(d.context, 2048);
  EXPECT_DOUBLE_EQ(d.norm_eps, 1e-6);
  EXPECT_DOUBLE_EQ(d.rope.theta, 1e4);
  EXPECT_FALSE(d.tied);
  const auto s = read_description(smollm3());
  EXPECT_EQ(s.key_heads, 4);
  EXPECT_EQ(s.context, 32768);
  EXPECT_DOUBLE_EQ(s.rope.theta, 2e6);
  EXPECT_TRUE(s.tied);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(s.layers[i].rope, i != 3 && i != 7);
}

TEST(description, a_truncate_of_null_is_false) {
  const auto frequencies = [](const json& truncate) {
    json m = llama();
    m["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 64}};
    if (truncate != "absent") m["rope_scaling"]["truncate"] = truncate;
    return read_description(m).rope.inv_freq;
  };
  EXPECT_EQ(frequencies(nullptr), frequencies(false));
  EXPECT_EQ(frequencies("absent"), frequencies(true));
  EXPECT_NE(frequencies(true), frequencies(false));
}

TEST(description, rope_parameters_of_either_transformers_version) {
  const auto theta = [](const json& patch) { return read_description(with(smollm3(), patch)).rope.theta; };
  EXPECT_DOUBLE_EQ(theta({{"rope_theta", 5e4}}), 5e4);
  EXPECT_DOUBLE_EQ(theta({{"rope_parameters", {{"rope_theta", 3e5}}}, {"rope_theta", 5e4}}), 3e5);
  EXPECT_DOUBLE_EQ(theta({{"rope_parameters", {{"rope_type", "default"}}}, {"rope_theta", 5e4}}), 5e4);
  // rope_scaling replaces rope_parameters as a whole.
  const json both{{"rope_scaling", {{"type", "default"}}}, {"rope_parameters", {{"rope_theta", 3e5}}}};
  EXPECT_DOUBLE_EQ(theta(both), 2e6);
}

TEST(description, smollm3_switches_and_windows) {
  const auto d = read_description(with(
      smollm3(), {{"no_rope_layers", {1, 0, 1, 1, 1, 0, 1, 1}}, {"use_sliding_window", true}, {"sliding_window", 64}}));
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(d.layers[i].rope, i != 1 && i != 5);
    EXPECT_EQ(d.layers[i].window.value_or(0), d.layers[i].rope ? 0 : 64);
  }
  EXPECT_FALSE(read_description(with(smollm3(), {{"sliding_window", 64}})).layers[3].window);
}

TEST(description, refusals_name_what_is_wrong) {
  EXPECT_EQ(description_refusal({{"model_type", "foo"}}),
            "config.json: model_type 'foo' is not supported; supported: llama, llama4, llama4_text, smollm3, mistral, "
            "ministral, ministral3, mistral3, qwen2, qwen3, qwen3_moe, qwen3_5, qwen3_5_text, "
            "qwen3_5_moe, qwen3_5_moe_text, qwen3_next, mllama, "
            "mllama_text_model, gemma3, gemma3_text, gemma4, gemma4_text, gemma4_unified, gemma4_unified_text, glm, "
            "glm4, glm4_moe, "
            "olmo2, olmo3, granite, seed_oss, hunyuan_v1_dense, exaone4, cohere2, phi3, gemma2, gpt_oss, deepseek_v3, "
            "gpt_neox");
  expect_refusal(json::object(), "model_type");
  expect_refusal(json::array(), "object");
  expect_refusal(with(llama(), {{"rope_scaling", {{"rope_type", "axial"}}}}), "rope type 'axial'");
  expect_refusal(with(llama(), {{"hidden_act", "relu"}}), "'relu'");
  expect_refusal(with(llama(), {{"num_key_value_heads", 5}}), "multiple");
  expect_refusal(with(llama(), {{"hidden_size", -4}}), "hidden_size");
  expect_refusal(with(llama(), {{"hidden_size", "big"}}), "\"big\"");
  expect_refusal(with(llama(), {{"num_hidden_layers", 1e9}}), "num_hidden_layers");
  expect_refusal(with(llama(), {{"rope_scaling", {{"factor", nullptr}}}}), "factor");
  expect_refusal(with(llama(), {{"rope_theta", 0}}), "rope_theta");
  expect_refusal(with(smollm3(), {{"no_rope_layers", {1, 0}}}), "no_rope_layers");
  expect_refusal(with(smollm3(), {{"layer_types", json(std::vector<std::string>(8, "chunked"))}}), "chunked");
  const json sliding(std::vector<std::string>(8, "sliding_attention"));
  expect_refusal(with(smollm3(), {{"layer_types", sliding}, {"sliding_window", 33}}), "no window");
  expect_refusal(with(llama(), {{"layer_types", "full_attention"}}), "must list");
  expect_refusal(with(llama(), {{"is_causal", false}}), "causal");
  expect_refusal({{"model_type", "mistral3"}, {"text_config", with(llama(), {{"is_causal", false}})}}, "causal");
  expect_refusal(with(smollm3(), {{"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}}),
                 "for each type of layer");
}

TEST(description, a_text_config_that_does_not_say_its_type_has_that_of_the_family) {
  for (const auto& [type, text] : {std::pair{"llama4", "llama4_text"},
                                   {"mistral3", "mistral"},
                                   {"qwen3_5", "qwen3_5_text"},
                                   {"qwen3_5_moe", "qwen3_5_moe_text"},
                                   {"mllama", "mllama_text_model"},
                                   {"gemma3", "gemma3_text"},
                                   {"gemma4", "gemma4_text"},
                                   {"gemma4_unified", "gemma4_unified_text"}}) {
    const json said = with(small(text), {{"hidden_size_per_layer_input", 0}});
    json silent = said;
    silent.erase("model_type");
    const auto wrapped = read_description({{"model_type", type}, {"text_config", silent}}),
               alone = read_description(said);
    EXPECT_EQ(wrapped.model_type, type);
    EXPECT_THAT(wrapped.prefixes, testing::Contains("language_model.model.")) << type;
    EXPECT_EQ(wrapped.rope.inv_freq, alone.rope.inv_freq) << type;
    EXPECT_EQ(wrapped.context, alone.context) << type;
    ASSERT_EQ(wrapped.layers.size(), alone.layers.size()) << type;
    for (std::size_t i = 0; i < alone.layers.size(); ++i)
      EXPECT_EQ(wrapped.layers[i].window, alone.layers[i].window) << type;
  }
}

TEST(description, families_of_2026_have_their_own_defaults) {
  const auto olmo = read_small("olmo3", {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 8}}}});
  EXPECT_DOUBLE_EQ(olmo.rope.theta, 5e5);
  EXPECT_EQ(olmo.rope.type, "yarn");
  EXPECT_EQ(olmo.local_rope->type, "default");
  EXPECT_TRUE(olmo.local_rope->exact_table);
  const auto cohere = read_small("cohere2"), exaone = read_small("exaone4"), gemma = read_small("gemma2");
  for (std::size_t i = 0; i < 12; ++i) {
    const bool full = i % 4 == 3;
    EXPECT_EQ(olmo.layers[i].window.value_or(0), full ? 0 : 4096);
    EXPECT_EQ(cohere.layers[i].window.value_or(0), full ? 0 : 4096);
    EXPECT_EQ(exaone.layers[i].window.value_or(0), full ? 0 : 4096);
    EXPECT_EQ(cohere.layers[i].rope && exaone.layers[i].rope, !full);
    EXPECT_EQ(gemma.layers[i].window.has_value(), i % 2 == 0);
  }
  EXPECT_DOUBLE_EQ(cohere.logit_scale, 0.0625);
  EXPECT_DOUBLE_EQ(gemma.score_cap, 50);
  EXPECT_DOUBLE_EQ(gemma.logit_cap, 30);
  EXPECT_DOUBLE_EQ(*gemma.score_scale, 0.0625);
  EXPECT_EQ(plan_capture(gemma, "m", "", {}).score_softcap, 50);
  json uncapped = small("gemma2");
  uncapped["attn_logit_softcapping"] = nullptr;
  EXPECT_EQ(read_description(uncapped).score_cap, 0);
  EXPECT_FALSE(plan_capture(read_description(uncapped), "m", "", {}).score_softcap);
  json full = small("exaone4");
  full["sliding_window"] = nullptr;
  for (const auto& l : read_description(full).layers) EXPECT_TRUE(l.rope && !l.window);
  const auto lettered = read_small("exaone4", {{"sliding_window_pattern", "LG"}});
  EXPECT_TRUE(lettered.layers[0].window && !lettered.layers[1].window && lettered.layers[2].window);
  EXPECT_TRUE(read_small("seed_oss").qkv_bias);
  EXPECT_EQ(read_small("seed_oss").head_dim, 128);
  EXPECT_FALSE(read_small("seed_oss").output_bias);
  EXPECT_DOUBLE_EQ(*read_small("granite").score_scale, 1);
}

/// Gemma 4 as its config.json has it, where it is not silent.
json gemma4() {
  return {{"model_type", "gemma4_text"},
          {"num_hidden_layers", 12},
          {"hidden_size_per_layer_input", 0},
          {"attention_k_eq_v", true},
          {"num_global_key_value_heads", 2}};
}

TEST(description, gemma4_has_wider_heads_in_full_layers) {
  const auto d = read_description(gemma4());
  EXPECT_EQ((head_shape{d.key_heads, d.head_dim}), (head_shape{2, 512}));
  for (std::size_t i = 0; i < 12; ++i) {
    const layer_description& l = d.layers[i];
    EXPECT_EQ(d.heads_of(l), (i % 6 == 5 ? head_shape{2, 512} : head_shape{4, 256})) << i;
    EXPECT_EQ(l.window.value_or(0), i % 6 == 5 ? 0 : 512);
    EXPECT_EQ(l.values_of_keys, i % 6 == 5);
  }
  EXPECT_EQ(d.widest_head(), 512);
  EXPECT_EQ(d.widest_keys(), 1024);
  // As transformers computes them: exponents of the whole head, and 192 pairs that do not turn.
  EXPECT_EQ(d.rope.rotary_dim, 512);
  expect_near(d.rope.inv_freq[1], 0.947463526);
  expect_near(d.rope.inv_freq[63], 0.0333762469);
  EXPECT_EQ(d.rope.inv_freq[64], 0);
  EXPECT_EQ(d.rope.inv_freq.size(), 256u);
  EXPECT_EQ(d.local_rope->inv_freq, default_frequencies(1e4, 256));
  const json by_layer = with(gemma4(), {{"head_dim", 64},
                                        {"per_layer_config",
                                         {{"5", {{"head_dim", 128}, {"num_key_value_heads", 1}}},
                                          {"11", {{"head_dim", 128}, {"num_key_value_heads", 1}}}}}});
  EXPECT_EQ(read_description(by_layer).head_dim, 128);
  EXPECT_EQ(read_description(by_layer).key_heads, 1);
  EXPECT_EQ(read_description(by_layer).layers[0].heads, (head_shape{4, 64}));
  const auto unified = read_description({{"model_type", "gemma4_unified"}, {"text_config", json::object()}});
  EXPECT_EQ(unified.layers[0].window, 1024);
  EXPECT_EQ(unified.context, 262144);
  // Without its switch the number of key heads does not count.
  EXPECT_EQ(read_description(with(gemma4(), {{"attention_k_eq_v", false}})).key_heads, 4);
}

TEST(description, what_gemma4_is_not_computed_with_is_refused_by_name) {
  for (const auto& [field, value] : std::vector<std::pair<std::string, json>>{{"hidden_size_per_layer_input", 256},
                                                                              {"hidden_size_per_layer_input", nullptr},
                                                                              {"enable_moe_block", true},
                                                                              {"num_kv_shared_layers", 4},
                                                                              {"use_bidirectional_attention", "all"},
                                                                              {"num_global_key_value_heads", 3}})
    expect_refusal(with(gemma4(), {{field, value}}), field == "num_global_key_value_heads" ? "3 key heads" : field);
  EXPECT_NO_THROW(read_description(with(gemma4(), {{"use_bidirectional_attention", "vision"}})));
  const json one_wide{{"5", {{"head_dim", 512}}}};
  expect_refusal(with(gemma4(), {{"per_layer_config", one_wide}}), "the same heads");
  expect_refusal(with(gemma4(), {{"per_layer_config", {{"0", {{"hidden_size", 8}}}}}}), "hidden_size");
  expect_refusal(with(gemma4(), {{"layer_types", json(std::vector<std::string>(12, "sliding_attention"))}}),
                 "last of layer_types");
  expect_refusal(with(llama(), {{"global_head_dim", 512}}), "global_head_dim");
}

TEST(plan, a_capture_holds_layers_whose_heads_are_alike) {
  const auto d = read_description(gemma4());
  for (const bool windowed : {false, true}) {
    const auto full = plan_capture(d, "m", "", {.include_windowed = windowed});
    ASSERT_EQ(full.layers.size(), 2u);
    EXPECT_EQ(full.model.head_dim, 512);
    EXPECT_EQ(full.rope->rotary_dim, 512);
    EXPECT_THAT(full.layers[0].key_heads, ElementsAre(0, 1));
  }
  const auto sliding = plan_capture(d, "m", "", {.layers = {0, 3}});
  EXPECT_EQ(sliding.model.head_dim, 256);
  EXPECT_EQ(sliding.model.n_key_heads, 4);
  EXPECT_EQ(sliding.rope->rotary_dim, 256);
  EXPECT_THAT(sliding.layers[1].key_heads, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(test::message_of([&] {
                plan_capture(d, "m", "", {.layers = {0, 1, 2, 5}});
              }),
              HasSubstr("such as --layers 0-2"));
  EXPECT_EQ(ranges_text(layers_with_other_heads(d)), "0-4,6-10");
}

TEST(description, glm4_moe_without_groups_of_experts) {
  const json config{{"model_type", "glm4_moe"}, {"head_dim", 128}};
  const auto d = read_description(config);
  EXPECT_TRUE(!d.layers[0].experts && d.layers[1].experts && d.layers[45].experts);
  EXPECT_EQ(d.experts->shared_width, 1408);
  EXPECT_EQ(d.rope.rotary_dim, 64);
  EXPECT_FALSE(d.rope.interleaved);
  expect_refusal(with(config, {{"n_group", 8}}), "n_group must be 1");
  expect_refusal(with(config, {{"num_experts_per_tok", 129}}), "at most n_routed_experts");
}

TEST(description, longrope_chooses_by_length) {
  json phi{{"model_type", "phi3"},
           {"num_attention_heads", 32},
           {"max_position_embeddings", 131072},
           {"original_max_position_embeddings", 4096},
           {"rope_scaling", {{"type", "su"}, {"short_factor", json::array()}, {"long_factor", json::array()}}}};
  for (int i = 0; i < 48; ++i) {
    phi["rope_scaling"]["short_factor"].push_back(1 + 0.01 * i);
    phi["rope_scaling"]["long_factor"].push_back(1 + 0.5 * i);
  }
  const auto d = read_description(phi);
  EXPECT_NEAR(d.rope.attention_factor, 1.19023807, 1e-8);
  expect_near(d.rope.inv_freq[10], 1 / (1.1 * std::pow(1e4, 20.0 / 96)));
  EXPECT_EQ(frequencies_of(d.rope, 4096), d.rope.inv_freq);
  expect_near(frequencies_of(d.rope, 4097)[10], 1 / (6 * std::pow(1e4, 20.0 / 96)));
  const auto planned = [&](index_t length) {
    return plan_capture(d, "m", "", {.max_length = length}).rope->inv_freq[10];
  };
  EXPECT_EQ(planned(4096), static_cast<double>(d.rope.inv_freq[10]));
  EXPECT_EQ(planned(4097), static_cast<double>(d.rope.longrope->inv_freq[10]));
  EXPECT_EQ(read_description(with_rope_scaling(phi, "yarn:4:4096")).rope.type, "yarn");
  EXPECT_EQ(read_description(with(phi, {{"original_max_position_embeddings", 1e19}})).rope.longrope->context,
            index_t{9'000'000'000'000'000});
  phi["rope_scaling"]["long_factor"].push_back(2);
  expect_refusal(phi, "long_factor must list 48 numbers");
  phi["rope_scaling"].erase("long_factor");
  phi["rope_scaling"]["type"] = "longrope";
  expect_refusal(phi, "long_factor is missing");
}

TEST(description, hunyuan_s_alpha_is_a_larger_base) {
  json config = llama();
  config["model_type"] = "hunyuan_v1_dense";
  config["rope_scaling"] = {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}};
  const auto rope = read_description(config).rope;
  EXPECT_FALSE(rope.dynamic);
  EXPECT_EQ(rope.inv_freq, default_frequencies(5e5 * std::pow(1000.0, 64.0 / 62), 64));
  config["rope_scaling"]["alpha"] = -1;
  expect_refusal(config, "alpha");
}

/// The released models' frequencies, whose YaRN has no whole dimensions as bounds, and what else they have where
/// config.json is silent.
TEST(description, gpt_oss_is_the_released_model_where_config_json_is_silent) {
  const auto d = read_description({{"model_type", "gpt_oss"}});
  EXPECT_NEAR(d.rope.attention_factor, 1.34657359, 1e-8);
  for (const auto& [i, f] : {std::pair{9, 0.0317056962}, {12, 6.79495949e-3}, {17, 1.29318701e-4}, {31, 3.02351143e-7}})
    EXPECT_NEAR(static_cast<double>(d.rope.inv_freq[static_cast<std::size_t>(i)]) / f, 1, 1e-6) << i;
  EXPECT_EQ(d.layers[0].window, 128);
  EXPECT_FALSE(d.layers[1].window);
  EXPECT_TRUE(d.sinks);
  EXPECT_EQ(d.experts->count, 128);
  EXPECT_EQ(d.experts->width, 2880);
  expect_refusal({{"model_type", "gpt_oss"}, {"swiglu_alpha", 1.5}}, "swiglu_alpha");
}

/// Layers of a delta net have no queries and keys: they are computed, never captured.
TEST(description, qwen3_5_attends_in_each_fourth_layer) {
  const decoder_description d = read_description({{"model_type", "qwen3_5"}, {"text_config", json::object()}});
  EXPECT_EQ(d.model_type, "qwen3_5");
  EXPECT_EQ(d.rope.rotary_dim, 64);
  EXPECT_TRUE(d.gated_output);
  EXPECT_EQ(d.delta->channels(), 2 * 16 * 128 + 32 * 128);
  EXPECT_EQ(choose_layers(d, {}), (std::vector<index_t>{3, 7, 11, 15, 19, 23, 27, 31}));
  EXPECT_THAT(test::message_of([&] { choose_layers(d, {.layers = {4}}); }), HasSubstr("gated delta net"));
  const decoder_description mixture =
      read_description({{"model_type", "qwen3_5_moe"}, {"text_config", {{"norm_topk_prob", false}}}});
  EXPECT_EQ(mixture.experts->count, 256);
  EXPECT_TRUE(mixture.experts->normalised);  // whatever config.json says
  for (const layer_description& l : mixture.layers) EXPECT_TRUE(l.experts);
  const json text{{"model_type", "qwen3_5_text"}, {"num_hidden_layers", 2}};
  const auto listed = read_description(with(text, {{"layer_types", {"full_attention", "linear_attention"}}}));
  EXPECT_FALSE(listed.layers[0].delta);
  EXPECT_TRUE(listed.layers[1].delta);
  expect_refusal(with(text, {{"layer_types", {"full_attention", "conv"}}}), "conv");
  expect_refusal(with(text, {{"linear_num_value_heads", 24}}), "linear_num_value_heads");
  expect_refusal(with(text, {{"hidden_act", "gelu"}}), "silu");
}

TEST(description, llama4_has_the_shape_of_its_release) {
  const decoder_description d = read_description({{"model_type", "llama4"}, {"text_config", json::object()}});
  EXPECT_EQ(d.n_layers(), 48);
  EXPECT_EQ(d.key_heads, 8);
  EXPECT_TRUE(d.layers[2].rope);
  EXPECT_FALSE(d.layers[3].rope);
  EXPECT_EQ(d.layers[2].chunk, 8192);
  EXPECT_FALSE(d.layers[3].chunk);
  EXPECT_TRUE(d.layers[0].experts);
  EXPECT_EQ(d.feed_forward, 16384);
  EXPECT_EQ(d.experts->shared_width, 8192);
  EXPECT_EQ(d.growth->context, 8192);
  const json text{{"model_type", "llama4_text"}, {"num_hidden_layers", 4}};
  expect_refusal(
      with(text, {{"layer_types", {"full_attention", "chunked_attention", "chunked_attention", "full_attention"}}}),
      "has chunked attention there");
  expect_refusal(with(text, {{"attention_chunk_size", "all"}}), "attention_chunk_size");
  EXPECT_FALSE(read_description(with(text, {{"interleave_moe_layer_step", 2}})).layers[0].experts);
  EXPECT_FALSE(read_description(with(text, {{"attn_temperature_tuning", false}})).growth);
  EXPECT_TRUE(read_description(with(text, {{"attn_temperature_tuning", 4}})).growth);
}

/// Analyses know no chunks: layers that have them are captured where a document fits into one.
TEST(plan, layers_that_attend_within_chunks_are_captured_up_to_one_chunk) {
  const decoder_description d = read_description({{"model_type", "llama4_text"}, {"num_hidden_layers", 8}});
  EXPECT_EQ(choose_layers(d, {.max_length = 8192}).size(), 8u);
  EXPECT_EQ(choose_layers(d, {.max_length = 8193}), (std::vector<index_t>{3, 7}));
  EXPECT_THAT(test::message_of([&] { choose_layers(d, {.max_length = 8193, .layers = {1}}); }),
              HasSubstr("--max-length 8192"));
}

TEST(description, deepseek_v3_has_the_shape_and_scale_of_its_release) {
  const json config{{"model_type", "deepseek_v3"},
                    {"max_position_embeddings", 163840},
                    {"rope_scaling",
                     {{"type", "yarn"},
                      {"factor", 40},
                      {"mscale", 1.0},
                      {"mscale_all_dim", 1.0},
                      {"beta_fast", 32},
                      {"beta_slow", 1},
                      {"original_max_position_embeddings", 4096}}}};
  const decoder_description d = read_description(config);
  EXPECT_EQ(d.head_dim, 192);
  EXPECT_EQ(d.key_heads, 128);
  EXPECT_EQ(d.rope.rotary_dim, 64);
  EXPECT_EQ(d.rope.first, 128);
  EXPECT_EQ(d.rope.attention_factor, 1);
  EXPECT_NEAR(*d.score_scale, std::pow(0.1 * std::log(40.0) + 1, 2) / std::sqrt(192.0), 1e-12);
  EXPECT_EQ(d.latent->query_rank, 1536);
  EXPECT_FALSE(d.layers[2].experts);
  EXPECT_TRUE(d.layers[3].experts);
  EXPECT_EQ(d.experts->groups, 8);
  EXPECT_EQ(d.experts->chosen_groups, 4);
  const auto refused = [&](const json& patch) { return description_refusal(with(config, patch)); };
  EXPECT_THAT(refused({{"v_head_dim", 256}}), HasSubstr("v_head_dim"));
  EXPECT_THAT(refused({{"num_key_value_heads", 8}}), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(refused({{"n_group", 3}}), HasSubstr("n_group"));
  EXPECT_THAT(refused({{"topk_group", 9}}), HasSubstr("topk_group"));
}

TEST(description, what_another_family_has_is_refused_by_name) {
  const auto refused = [](const json& patch) { return description_refusal(with(llama(), patch)); };
  EXPECT_THAT(refused({{"attn_logit_softcapping", 50.0}}),
              HasSubstr("attn_logit_softcapping does not belong to model_type llama"));
  EXPECT_THAT(refused({{"attention_multiplier", 0.1}}), HasSubstr("attention_multiplier"));
  EXPECT_THAT(refused({{"kv_lora_rank", 512}}), HasSubstr("kv_lora_rank"));
  EXPECT_THAT(refused({{"model_type", "granite"}, {"no_rope_layers", {1}}}), HasSubstr("no_rope_layers"));
  json null = llama();
  null["attn_logit_softcapping"] = nullptr;
  EXPECT_NO_THROW(read_description(null)) << "null is absent";
  // A family that does not read layer_types takes none of them for full attention.
  std::vector<std::string> types(16, "full_attention");
  EXPECT_NO_THROW(read_description(with(llama(), {{"layer_types", types}})));
  types[3] = "linear_attention";
  EXPECT_THAT(refused({{"layer_types", types}}), HasSubstr("layer 3 \"linear_attention\""));
  types[3] = "sliding_attention";
  EXPECT_THAT(refused({{"layer_types", types}}), HasSubstr("layer 3 \"sliding_attention\""));
  for (const char* type : {"llama", "olmo3", "exaone4", "cohere2", "gemma2", "qwen3"}) {
    types[3] = "full_attention";
    for (const std::size_t count : {15u, 17u})
      EXPECT_THAT(
          refused({{"model_type", type}, {"rope_scaling", nullptr}, {"layer_types", std::vector(count, types[0])}}),
          HasSubstr("layer_types"))
          << type;
    types[3] = "chunked_attention";
    EXPECT_THAT(refused({{"model_type", type}, {"rope_scaling", nullptr}, {"layer_types", types}}),
                HasSubstr("\"chunked_attention\""))
        << type;
  }
}

TEST(description, refusals_show_text_of_config_json_cut_and_without_controls) {
  const std::string bad = "\x1b[2J\n" + std::string(1, '\0') + std::string(1000, 'x');
  for (const auto& patch : std::vector<json>{{{"model_type", bad}},
                                             {{"hidden_act", bad}},
                                             {{"rope_scaling", {{"rope_type", bad}}}},
                                             {{"model_type", "qwen3"}, {"layer_types", std::vector(16, bad)}}}) {
    json config = llama();
    config.update(patch);
    const std::string text = test::message_of([&] { read_description(config); });
    EXPECT_THAT(text, testing::AnyOf(HasSubstr("?[2J??xxx"), HasSubstr("\\u001b[2J\\n\\u0000xxx")));
    EXPECT_LT(text.size(), 600u) << text;
  }
}

TEST(plan, heads_and_their_keys) {
  const auto model = read_description(llama());
  const auto all = plan_capture(model, "m", "", {});
  ASSERT_EQ(all.layers.size(), 16u);
  EXPECT_EQ(all.layers[5].query_heads.size(), 32u);
  EXPECT_THAT(all.layers[5].key_heads, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  const auto some = plan_capture(model, "m", "", {.heads = 40, .layers = {2, 5}, .seed = 3});
  std::size_t heads = 0;
  for (const auto& l : some.layers) {
    EXPECT_TRUE(l.layer == 2 || l.layer == 5);
    heads += l.query_heads.size();
    EXPECT_EQ(some.key_of_query(l).size(), l.query_heads.size());
  }
  EXPECT_EQ(heads, 40u);
  EXPECT_THROW(plan_capture(model, "m", "", {.layers = {16}}), error);
  EXPECT_THROW(plan_capture(model, "m", "", {.heads = 0}), error);
  EXPECT_FALSE(all.score_scale) << "that of the head size";
  auto scaled = model;
  scaled.score_scale = 0.0625;
  EXPECT_EQ(plan_capture(scaled, "m", "", {}).score_scale, 0.0625);
}

TEST(plan, windowed_layers_are_left_out_unless_asked_for) {
  const auto model = read_description(with(smollm3(), {{"use_sliding_window", true}, {"sliding_window", 64}}));
  EXPECT_EQ(plan_capture(model, "m", "", {}).layers.size(), 6u);
  EXPECT_EQ(plan_capture(model, "m", "", {.include_windowed = true}).layers.size(), 8u);
  const auto named = plan_capture(model, "m", "", {.layers = {3}});
  ASSERT_EQ(named.layers.size(), 1u);
  EXPECT_EQ(named.layers[0].window.value_or(0), 64);
}

TEST(plan, the_rate_is_a_probability_for_uniform_buckets) {
  const auto model = read_description(smollm3());
  const auto rate = [&](token_sampler s) { return plan_capture(model, "m", "", {.sampler = s}).rate; };
  EXPECT_DOUBLE_EQ(rate({sampler_kind::uniform, 512, 24}), 24.0 / 512);
  EXPECT_DOUBLE_EQ(rate({sampler_kind::uniform, 8, 24}), 1);
  EXPECT_DOUBLE_EQ(rate({sampler_kind::log2, 64, 24}), 24);
  EXPECT_DOUBLE_EQ(rate({sampler_kind::all, 512, 24}), 1);
}

TEST(plan, lists_of_layers) {
  EXPECT_THAT(parse_layers("0,3,5-7"), ElementsAre(0, 3, 5, 6, 7));
  EXPECT_THAT(parse_layers("3,1-3"), ElementsAre(1, 2, 3));
  EXPECT_TRUE(parse_layers("all").empty());
  for (const char* bad : {"", "x", "1,", "1-", "-1", "1;2", "1 2", "7-3", "7-3,5"})
    EXPECT_THROW(parse_layers(bad), error) << bad;
}

}  // namespace
}  // namespace qkgeom
