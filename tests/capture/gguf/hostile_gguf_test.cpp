// SPDX-License-Identifier: MIT
// Broken and lying GGUF files: qkgeom-capture says one sentence and ends with status 2, within a limit of memory and
// time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/capture/gguf/converted_gguf.hpp"
#include "tests/capture/program_fixture.hpp"
#include "tests/common/data_files.hpp"

namespace qkgeom {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr rlim_t memory_limit = 0;  // the sanitizers take terabytes of address space
#else
constexpr rlim_t memory_limit = rlim_t{2} << 30;
#endif

namespace fs = std::filesystem;
using test::converted;
using test::family_folder;
using test::written_gguf;
using ::testing::HasSubstr;

class hostile_gguf : public test::capture_program {
 protected:
  const written_gguf model = with_tokenizer();

  static written_gguf with_tokenizer() {
    auto w = converted(family_folder("qwen3"), "qwen3", "F32");
    json tokens = json::array();
    for (char c = 'a'; c <= 'z'; ++c) tokens.push_back(std::string(1, c));
    w.keys.emplace_back("tokenizer.ggml.model", "gpt2");
    w.keys.emplace_back("tokenizer.ggml.pre", "qwen2");
    w.keys.emplace_back("tokenizer.ggml.tokens", tokens);
    w.keys.emplace_back("tokenizer.ggml.merges", json::array());
    return w;
  }
  /// The sentence with which a file of these bytes is refused.
  std::string refusal(const std::string& bytes, const std::string& name = "m.gguf") const {
    test::put(folder / name, bytes);
    test::put(folder / "text.txt", "abc");
    const auto begin = std::chrono::steady_clock::now();
    const int status = run({"--model", (folder / name).string(), "--text", (folder / "text.txt").string(), "--out",
                            (folder / "out").string(), "--threads", "1"},
                           {.address_space = memory_limit});
    EXPECT_EQ(status, 2) << log();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    EXPECT_FALSE(fs::exists(folder / "out"));
    return sentence();
  }
  template <class Change>
  std::string refusal_of(const Change& change) const {
    auto w = model;
    change(w);
    return refusal(w.bytes());
  }
  /// The same, of a file whose key `key` is `value`.
  std::string refusal(written_gguf w, const std::string& key, const json& value) const {
    std::erase_if(w.keys, [&](const auto& k) { return k.first == key; });
    w.keys.emplace_back(key, value);
    return refusal(w.bytes());
  }
  /// The file with the bytes that stand `skip` behind `text` replaced by those of `x`.
  template <class T>
  std::string patched(const std::string& text, std::size_t skip, const T& x) const {
    std::string bytes = model.bytes();
    const auto at = text.empty() ? 0 : bytes.find(text) + text.size();
    bytes.replace(at + skip, sizeof(T), reinterpret_cast<const char*>(&x), sizeof(T));
    return bytes;
  }
};

TEST_F(hostile_gguf, a_whole_file_is_captured) {
  test::put(folder / "m.gguf", model.bytes());
  test::put(folder / "text.txt", "abc");
  EXPECT_EQ(run({"--model", (folder / "m.gguf").string(), "--text", (folder / "text.txt").string(), "--out",
                 (folder / "out").string()},
                {.address_space = memory_limit}),
            0)
      << log();
}

TEST_F(hostile_gguf, files_cut_short_in_every_section_are_refused) {
  const std::string whole = model.bytes();
  const auto behind = [&](const std::string& text) { return whole.find(text) + text.size(); };
  EXPECT_THAT(refusal(whole.substr(0, 3)), HasSubstr("nor a GGUF file"));
  for (const std::size_t n : {std::size_t{4}, std::size_t{7}, std::size_t{12}, std::size_t{20}})
    EXPECT_THAT(refusal(whole.substr(0, n)),
                ::testing::AnyOf(HasSubstr("the file ends within its header"), HasSubstr("do not fit")))
        << n;
  for (const std::size_t n :
       {std::size_t{24}, std::size_t{30},                                                     // before the keys
        behind("general.arch"), behind("general.architecture"), behind("qwen3.block_count"),  // in a key, before values
        behind("tokenizer.ggml.tokens") + 20,                                                 // in a list
        whole.rfind("output_norm") + 4, whole.rfind("output_norm") + 20})                     // in a tensor's line
    EXPECT_THAT(refusal(whole.substr(0, n)),
                ::testing::AnyOf(HasSubstr("ends within its header"), HasSubstr("do not fit")))
        << n;
  for (const std::size_t n : {std::size_t{1}, std::size_t{1000}, whole.size() / 2})
    EXPECT_THAT(refusal(whole.substr(0, whole.size() - n)), HasSubstr("it may be cut short")) << n;
}

TEST_F(hostile_gguf, lying_numbers_are_refused) {
  const auto huge = std::int64_t{1} << 40;
  for (const std::int64_t n : {std::int64_t{-1}, huge, std::int64_t{1} << 62}) {
    EXPECT_THAT(refusal(patched("", 8, n)), HasSubstr("tensors do not fit")) << n;
    EXPECT_THAT(refusal(patched("", 16, n)), HasSubstr("keys do not fit")) << n;
  }
  const std::int64_t more = static_cast<std::int64_t>(model.tensors.size()) + 1;
  EXPECT_NE(refusal(patched("", 8, more)), "");
  EXPECT_THAT(refusal(patched("", 8, more - 2)), HasSubstr("bytes follow the last tensor"));
  EXPECT_NE(refusal(patched("", 16, static_cast<std::int64_t>(model.keys.size()) + 1)), "");
  EXPECT_NE(refusal(patched("", 16, static_cast<std::int64_t>(model.keys.size()) - 1)), "");
  // An array's values, a string's bytes, a list of lists, a type of value, a name's length.
  EXPECT_THAT(refusal(patched("tokenizer.ggml.tokens", 8, huge)), HasSubstr("values of an array do not fit"));
  EXPECT_THAT(refusal_of([](written_gguf& w) { w.keys.emplace_back("list", std::vector<bool>((1 << 22) + 1)); }),
              HasSubstr("more than 4194304 values in arrays"));
  EXPECT_THAT(refusal(patched("general.architecture", 4, huge)), HasSubstr("is longer than"));
  EXPECT_THAT(refusal(patched("tokenizer.ggml.tokens", 4, std::uint32_t{9})), HasSubstr("an array of arrays"));
  EXPECT_THAT(refusal(patched("qwen3.block_count", 0, std::uint32_t{77})), HasSubstr("the type 77"));
  EXPECT_THAT(refusal(patched("", 24, huge)), HasSubstr("is longer than"));
  // A tensor's dimensions, its size, its type, its offset.
  const std::string tensor = "blk.0.attn_q.weight";
  EXPECT_THAT(refusal(patched(tensor, 0, std::uint32_t{5})), HasSubstr("has 5 dimensions"));
  EXPECT_THAT(refusal(patched(tensor, 0, std::uint32_t{0})), HasSubstr("has 0 dimensions"));
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{-4}})
    EXPECT_THAT(refusal(patched(tensor, 4, n)), HasSubstr("has a dimension of"));
  EXPECT_THAT(refusal(patched(tensor, 4, std::int64_t{1} << 61)), HasSubstr("is too large"));
  EXPECT_NE(refusal(patched(tensor, 4, huge)), "");
  EXPECT_THAT(refusal(patched(tensor, 20, std::uint32_t{999})), HasSubstr("type 999 of ggml is not known"));
  EXPECT_THAT(refusal(patched(tensor, 20, std::uint32_t{16})), HasSubstr("IQ2_XXS is not supported"));
  EXPECT_THAT(refusal(patched(tensor, 24, huge)), HasSubstr("lies at"));
  // The version, and what alignment must be.
  EXPECT_THAT(refusal(patched("", 4, std::uint32_t{1})), HasSubstr("GGUF version 1 is not supported"));
  EXPECT_THAT(refusal(patched("", 4, std::uint32_t{3} << 24)), HasSubstr("big-endian"));
  for (const json& alignment : {json(33), json(0), json("32")})
    EXPECT_THAT(refusal_of([&](written_gguf& w) { w.keys.emplace_back("general.alignment", alignment); }),
                HasSubstr("general.alignment"));
}

TEST_F(hostile_gguf, keys_and_tensors_that_do_not_belong_together_are_refused) {
  EXPECT_THAT(refusal_of([](written_gguf& w) { w.keys.push_back(w.keys[3]); }), HasSubstr("there twice"));
  EXPECT_THAT(refusal_of([](written_gguf& w) { w.tensors.push_back(w.tensors[0]); }), HasSubstr("there twice"));
  EXPECT_THAT(refusal(model, "tokenizer.ggml.pre", "unheard-of"), HasSubstr("the text rule 'unheard-of'"));
  EXPECT_THAT(refusal(model, "general.architecture", "mamba"), HasSubstr("architecture 'mamba' is not supported"));
  EXPECT_THAT(refusal(model, "general.architecture", "qwen2"), HasSubstr("qwen2."));  // whose keys are not there
  for (const char* key :
       {"expert_count", "attention.sliding_window", "attention.kv_lora_rank", "ssm.state_size", "nextn_predict_layers"})
    EXPECT_THAT(refusal(model, std::string("qwen3.") + key, 8), HasSubstr(std::string(key) + " is not supported"));
  EXPECT_THAT(refusal(model, "qwen3.attn_logit_softcapping", 50.0),
              HasSubstr("attn_logit_softcapping is not supported"));
  EXPECT_THAT(refusal(model, "qwen3.attention.causal", false), HasSubstr("only causal attention is supported"));
  EXPECT_THAT(refusal(model, "qwen3.rope.scaling.factor", -2.0),
              HasSubstr("rope.scaling.factor must be a positive number"));
  EXPECT_THAT(refusal(model, "qwen3.rope.scaling.type", "longrope"), HasSubstr("longrope"));
  EXPECT_THAT(refusal(model, "qwen3.rope.dimension_count", 7), HasSubstr("a rotary embedding of 7 of 20 channels"));
  EXPECT_THAT(refusal(model, "qwen3.attention.head_count", json::array({6, 6, 0})), HasSubstr("attention.head_count"));
  EXPECT_THAT(refusal(model, "qwen3.attention.head_count", 7), HasSubstr("num_attention_heads"));
  EXPECT_THAT(refusal(model, "qwen3.attention.value_length", 8), HasSubstr("attention.value_length"));
  EXPECT_NE(refusal(model, "qwen3.block_count", 1 << 29), "");
  EXPECT_NE(refusal(model, "qwen3.embedding_length", 1 << 29), "");
  EXPECT_NE(refusal(model, "qwen3.context_length", 0), "");
  EXPECT_THAT(refusal_of([](written_gguf& w) { w.tensors[0].name = "blk.0.ssm_in.weight"; }),
              HasSubstr("tensor blk.0.ssm_in.weight is not supported for the architecture qwen3"));
  // Endings and biases that nobody reads.
  EXPECT_THAT(refusal_of([](written_gguf& w) {
                w.tensors.push_back({"blk.1.attn_norm.scale", {48}, "F32", std::vector<float>(48)});
              }),
              HasSubstr("blk.1.attn_norm.scale, with this ending, is not supported"));
  EXPECT_THAT(refusal_of([](written_gguf& w) {
                w.tensors.push_back({"blk.1.attn_norm.bias", {48}, "F32", std::vector<float>(48)});
              }),
              HasSubstr("model.layers.1.input_layernorm.bias is not read"));
  EXPECT_THAT(refusal_of([](written_gguf& w) {
                std::erase_if(w.tensors, [](const auto& t) { return t.name == "blk.1.attn_k.weight"; });
              }),
              HasSubstr("has no tensor model.layers.1.self_attn.k_proj.weight"));
}

TEST_F(hostile_gguf, sets_with_a_missing_or_a_foreign_part_are_refused) {
  const std::string whole = model.bytes();
  EXPECT_THAT(refusal(whole, "m-00001-of-00003.gguf"), HasSubstr("m-00002-of-00003.gguf is missing"));
  EXPECT_THAT(refusal(whole, "m-00001-of-00000.gguf"), HasSubstr("there is no part 1 of 0"));
  EXPECT_THAT(refusal(whole, "m-00004-of-00003.gguf"), HasSubstr("there is no part 4 of 3"));
  auto part = model;
  part.keys.emplace_back("split.count", 3);
  EXPECT_THAT(refusal(part.bytes()), HasSubstr("the name must end with -00001-of-00003.gguf"));
  part.keys.back().second = 1;
  part.keys.emplace_back("split.tensors.count", 1000);
  EXPECT_THAT(refusal(part.bytes()), HasSubstr("not the 1000 of split.tensors.count"));
  // Both parts hold the same tensors.
  test::put(folder / "t-00002-of-00002.gguf", whole);
  EXPECT_THAT(refusal(whole, "t-00001-of-00002.gguf"), HasSubstr("is in two parts"));
}

TEST_F(hostile_gguf, patterns_and_experts_of_the_wrong_number_are_refused) {
  auto gemma = converted(family_folder("gemma3-text"), "gemma3", "F32");
  const json two = json::array({true, false});
  EXPECT_THAT(refusal(gemma, "gemma3.attention.sliding_window_pattern", two),
              HasSubstr("layer_types must list the 3 layers"));
  EXPECT_THAT(refusal(gemma, "gemma3.attention.sliding_window_pattern", {2, 0, 1}),
              HasSubstr("sliding_window_pattern"));
  const auto moe = converted(family_folder("qwen3-moe"), "qwen3moe", "F32");
  EXPECT_THAT(refusal(moe, "qwen3moe.expert_count", 7), HasSubstr("has 8 experts, not 7"));
  EXPECT_THAT(refusal(moe, "qwen3moe.expert_count", 1 << 20), HasSubstr("expert_count"));
  EXPECT_THAT(refusal(moe, "qwen3moe.expert_used_count", 9), HasSubstr("num_experts_per_tok"));
  const auto glm = converted(family_folder("glm4-moe"), "glm4moe", "F32");
  EXPECT_THAT(refusal(glm, "glm4moe.nextn_predict_layers", 4), HasSubstr("must be less than block_count, 4"));
  EXPECT_THAT(refusal(glm, "glm4moe.nextn_predict_layers", 0),
              HasSubstr("blk.3.nextn.eh_proj.weight is not supported"));
  EXPECT_THAT(refusal(glm, "glm4moe.expert_gating_func", 1), HasSubstr("expert_gating_func must be 2"));
  EXPECT_THAT(refusal(glm, "glm4moe.expert_group_count", 2), HasSubstr("groups of experts are not supported"));
  const auto apart = converted(family_folder("qwen3.5-moe"), "qwen35moe", "F32");
  auto fused = apart;
  test::fuse_gate_and_up(fused);
  auto twice = fused;
  for (const auto& t : apart.tensors)
    if (t.name.ends_with("ffn_up_exps.weight")) twice.tensors.push_back(t);
  EXPECT_THAT(refusal(twice.bytes()), HasSubstr("and another one both hold model.layers.0.mlp.experts.0.up_proj"));
  for (auto& t : fused.tensors)
    if (t.name == "blk.0.ffn_gate_up_exps.weight") {
      t.values.resize(t.values.size() / t.shape[1] * (t.shape[1] - 1));
      --t.shape[1];
    }
  EXPECT_THAT(refusal(fused.bytes()), HasSubstr("rows, not as many of gate as of up"));
  auto phi = converted(family_folder("phi3"), "phi3", "F32");
  std::erase_if(phi.tensors, [](const auto& t) { return t.name == "rope_factors_short.weight"; });
  EXPECT_THAT(refusal(phi.bytes()), HasSubstr("longrope takes the tensors"));
  const auto granite = converted(family_folder("granite"), "granite", "F32");
  EXPECT_THAT(refusal(granite, "granite.rope.scaling.finetuned", false),
              HasSubstr("without rotary embedding is not supported"));
}

TEST_F(hostile_gguf, parts_of_heads_that_do_not_belong_together_are_refused) {
  const auto gemma = converted(family_folder("gemma4-text"), "gemma4", "F32");
  EXPECT_THAT(refusal(gemma, "gemma4.attention.head_count_kv", {2, 1, 2}), HasSubstr("a number for each layer"));
  EXPECT_THAT(refusal(gemma, "gemma4.attention.head_count_kv", {2, 0, 2, 0}), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(refusal(gemma, "gemma4.rope.dimension_count_swa", 10), HasSubstr("must be 20, the length of keys"));
  EXPECT_THAT(refusal(gemma, "gemma4.attention.shared_kv_layers", 1), HasSubstr("num_kv_shared_layers"));
  EXPECT_THAT(refusal(gemma, "gemma4.embedding_length_per_layer_input", 8), HasSubstr("hidden_size_per_layer_input"));
  EXPECT_THAT(refusal(gemma, "gemma4.attention.scale", 0.5), HasSubstr("attention.scale must be 1"));
  auto divided = gemma;
  for (auto& t : divided.tensors)
    if (t.name == "rope_freqs.weight") t.values[0] = 2;
  EXPECT_THAT(refusal(divided.bytes()), HasSubstr("rope_freqs.weight must hold 1, then 1e30"));
  const json by_layer = json::array({2, 2, 2});
  EXPECT_THAT(refusal(model, "qwen3.attention.head_count_kv", by_layer),
              HasSubstr("a number of key heads for each layer"));

  const auto qwen = converted(family_folder("qwen3.5"), "qwen35", "F32");
  EXPECT_THAT(refusal(qwen, "qwen35.ssm.inner_size", 2), HasSubstr("has 40 rows, not 0"));
  EXPECT_THAT(refusal(qwen, "qwen35.ssm.group_count", 3), HasSubstr("rows, not"));
  EXPECT_THAT(refusal(qwen, "qwen35.ssm.time_step_rank", 3), HasSubstr("rows, not"));

  const auto deepseek = converted(family_folder("deepseek-v3"), "deepseek2", "F32");
  EXPECT_THAT(refusal(deepseek, "deepseek2.attention.key_length_mla", 8), HasSubstr("must be less than"));
  EXPECT_THAT(refusal(deepseek, "deepseek2.expert_gating_func", 1), HasSubstr("expert_gating_func must be 2"));
  for (const bool flat : {true, false}) {
    auto broken = deepseek;
    for (auto& t : broken.tensors)
      if (t.name == "blk.0.attn_k_b.weight") {
        if (flat)
          t.shape = {static_cast<index_t>(t.values.size())};
        else
          std::swap(t.shape[0], t.shape[1]);
      }
    EXPECT_THAT(refusal(broken.bytes()), HasSubstr(flat ? "has 1 dimensions" : "do not belong to the same 6 heads"));
  }
  auto alone = deepseek;
  std::erase_if(alone.tensors, [](const auto& t) { return t.name == "blk.0.attn_v_b.weight"; });
  EXPECT_THAT(refusal(alone.bytes()), HasSubstr("no tensor attn_v_b beside blk.0.attn_k_b.weight"));
}

}  // namespace
}  // namespace qkgeom
