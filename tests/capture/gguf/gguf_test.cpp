// SPDX-License-Identifier: MIT
// Models in GGUF: blocks have the bits of the Python package `gguf`, a file is not believed, and a model gives what its
// safetensors give. QKGEOM_REAL_MODEL=FILE names SmolLM2-135M-Instruct.Q4_1.gguf, whose golden numbers are then
// checked.
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "capture/gguf/gguf_model.hpp"
#include "capture/job/prepare.hpp"
#include "capture/model/checkpoint.hpp"
#include "capture/model/description.hpp"
#include "capture/text/tokenizer.hpp"
#include "qkgeom/io/safetensors.hpp"
#include "tests/capture/capture_fixture.hpp"
#include "tests/capture/gguf/gguf_fixture.hpp"
#include "tests/capture/model/said.hpp"
#include "tests/common/data_files.hpp"

namespace {

using namespace qkgeom;
using test::loaded_gguf;
using test::written_gguf;
namespace fs = std::filesystem;

const fs::path data = QKGEOM_TEST_DATA;

TEST(gguf_blocks, have_the_bits_of_the_reference) {
  const safetensors_file fixture(data / "gguf-blocks.safetensors");
  int types = 0;
  for (std::uint32_t id = 0; id < 64; ++id) {
    const block_type* type = nullptr;
    try {
      type = &find_block_type(id);
    } catch (const error&) {
      continue;
    }
    if (std::string(type->name) == "F32") continue;
    const tensor_entry& blocks = fixture.at(std::string(type->name) + ".blocks");
    const auto values = fixture.values<float>(std::string(type->name) + ".values");
    std::vector<float> found(values.size());
    ASSERT_EQ(blocks.bytes / static_cast<std::size_t>(type->bytes) * static_cast<std::size_t>(type->elements),
              values.size());
    widen_blocks(*type, blocks.data, static_cast<index_t>(found.size()), found.data());
    for (std::size_t i = 0; i < found.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(found[i]), std::bit_cast<std::uint32_t>(values[i]))
          << type->name << ' ' << i << ": " << found[i] << ' ' << values[i];
    ++types;
  }
  EXPECT_EQ(types, 15);
  EXPECT_QKGEOM_ERROR("type IQ2_XXS is not supported", find_block_type(16));
  EXPECT_QKGEOM_ERROR("type 999 of ggml is not known", find_block_type(999));
}

/// The sentence with which a file of these bytes is refused; empty if it is read.
std::string refusal_of(const std::string& bytes) {
  const test::scratch_folder folder;
  test::put(folder / "f.gguf", bytes);
  try {
    gguf_file file(folder / "f.gguf");
  } catch (const error& e) {
    return e.what();
  }
  return {};
}

TEST(gguf_file, reads_what_was_written_and_believes_nothing_else) {
  const written_gguf right{.keys = {{"general.architecture", "llama"}, {"list", {1, 2}}},
                           .tensors = {{"a", {2, 4}, "F32", std::vector<float>(8, 1)}}};
  struct file {
    void (*change)(written_gguf&);
    const char* words;
  };
  for (const auto& [change, words] :
       std::vector<file>{{[](auto&) {}, ""},
                         {[](auto& w) { w.version = 2; }, ""},
                         {[](auto& w) { w.keys.emplace_back("general.alignment", w.alignment = 256); }, ""},
                         {[](auto& w) { w.magic = "GGUG"; }, "is not a GGUF file"},
                         {[](auto& w) { w.version = 1; }, "GGUF version 1 is not supported"},
                         {[](auto& w) { w.version = 3u << 16; }, "big-endian"},
                         {[](auto& w) { w.keys.emplace_back("list", "again"); }, "there twice"},
                         {[](auto& w) { w.keys.emplace_back("", 1); }, "is empty or there twice"},
                         {[](auto& w) { w.tensors.push_back(w.tensors[0]); }, "tensor a is there twice"},
                         {[](auto& w) { w.keys.emplace_back("general.alignment", 33); }, "not a power of two"},
                         {[](auto& w) {
                            w.tensors[0] = {"q", {1, 8}, "Q8_0", {}};
                          },
                          "not whole blocks of 32"}}) {
    auto w = right;
    change(w);
    const std::string said = refusal_of(w.bytes());
    EXPECT_TRUE(*words ? said.find(words) != said.npos : said.empty()) << said << " does not say '" << words << "'";
  }
  const std::string whole = right.bytes();
  EXPECT_NE(refusal_of(whole.substr(0, whole.size() - 33)).find("it may be cut short"), std::string::npos);
  // Every way to cut the file short is refused, and so are counts that do not fit.
  for (std::size_t n = 0; n < 96; ++n) EXPECT_NE(refusal_of(whole.substr(0, n)), "") << n;
  const auto with = [&](std::size_t at, char x) {
    auto bytes = whole;
    bytes[at] = x;
    return refusal_of(bytes);
  };
  for (const std::size_t at : {8, 16}) EXPECT_NE(with(at + 6, 1).find("fit"), std::string::npos);
  for (std::size_t at = 4; at < 160; ++at)
    for (const char x : {'\0', '\x7f', '\xff'}) with(at, x);  // ends, whatever it says
}

TEST(gguf_file, numbers_of_keys_have_any_type_of_gguf) {
  const test::scratch_folder folder;
  const auto metadata_of = [&](const written_gguf& w) {
    test::put(folder / "f.gguf", w.bytes());
    return gguf_file(folder / "f.gguf").metadata();
  };
  for (const std::uint32_t type : {0u, 1u, 2u, 3u, 4u, 5u, 10u, 11u}) {
    const bool is_signed = type % 2 == 1;
    written_gguf w{.keys = {{"n", is_signed ? -100 : 100}, {"list", {1, 2}}, {"x", 0.25}}, .integer_type = type};
    for (const std::uint32_t real : {6u, 12u}) {
      w.real_type = real;
      EXPECT_EQ(metadata_of(w), (json{{"n", is_signed ? -100 : 100}, {"list", {1, 2}}, {"x", 0.25}})) << type;
    }
  }
  auto model = loaded_gguf("qwen3");
  const json config = test::config_of(model);
  for (model.integer_type = 5; model.integer_type < 12; model.integer_type += model.integer_type == 5 ? 5 : 1)
    EXPECT_EQ(test::config_of(model), config) << model.integer_type;
}

TEST(gguf_model, a_capture_is_that_of_its_safetensors) {
  const test::scratch_folder folder;
  fs::create_directories(folder / "original");
  test::write_original("llama3", folder / "original");
  test::put(folder / "tiny.gguf", loaded_gguf("llama3").bytes());
  json vocabulary;
  for (int i = 0; i < 26; ++i) vocabulary[std::string(1, static_cast<char>('a' + i))] = i + 3;
  test::put(folder / "tokenizer.json",
            json{{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}}.dump());
  test::put(folder / "a.txt", "thequickbrownfoxjumpsoverthelazydog");
  test::put(folder / "b.txt", "waltznymphforquickjigsvexbud");
  capture_options options;
  options.inputs.tokenizer = folder / "tokenizer.json";
  options.inputs.text = {folder / "a.txt", folder / "b.txt"};
  options.selection.max_length = 64;
  options.selection.sampler.kind = sampler_kind::all;
  options.model.compute = compute_type::f32;
  std::ostringstream notes;
  for (const auto& [model, out] : {std::pair{folder / "original", "a"}, {folder / "tiny.gguf", "b"}}) {
    options.model.path = model;
    options.run.out = folder / out;
    run_capture(options, notes);
  }
  const json manifest = read_json(folder / "b" / "manifest.json");
  EXPECT_EQ(manifest["gguf"]["file"], "tiny.gguf");
  EXPECT_EQ(manifest["model"]["name"], "tiny");
  EXPECT_EQ(manifest["gguf"]["types"], (json{{"F16", 23}, {"F32", 8}}));
  EXPECT_EQ(manifest["model"]["config_sha256"], sha256().add(gguf_model(folder / "tiny.gguf").config().dump()).hex());
  const safetensors_file a(folder / "a" / "shard-00000.safetensors"), b(folder / "b" / "shard-00000.safetensors");
  ASSERT_FALSE(a.tensors().empty());
  for (const auto& t : a.tensors()) {
    const auto& same = b.at(t.name);
    EXPECT_EQ(t.shape, same.shape);
    EXPECT_TRUE(std::equal(t.data, t.data + t.bytes, same.data, same.data + same.bytes)) << t.name;
  }
}

TEST(gguf_model, its_metadata_are_a_config_json) {
  auto w = loaded_gguf("mistral");
  w.keys.emplace_back("llama.rope.scaling.type", "yarn");
  w.keys.emplace_back("llama.rope.scaling.factor", 4.0);
  w.keys.emplace_back("llama.rope.scaling.original_context_length", 64);
  w.keys.emplace_back("general.name", "tiny");
  const json yarn = test::config_of(w);
  EXPECT_EQ(yarn["rope_scaling"]["rope_type"], "yarn");
  EXPECT_EQ(yarn["_name_or_path"], "tiny");
  const auto d = read_description(yarn);
  EXPECT_EQ(d.rope.type, "yarn");
  EXPECT_EQ(d.model_type, "llama");
  EXPECT_DOUBLE_EQ(d.rope.attention_factor, 1 + 0.1 * std::log(4.0));
  const auto rope_with = [&](const written_gguf& model, const std::vector<std::pair<std::string, json>>& keys) {
    auto more = model;
    for (const auto& [key, value] : keys) more.keys.emplace_back("llama.rope." + key, value);
    return read_description(test::config_of(more)).rope;
  };
  // yarn_attn_factor takes the place of YaRN's own factor of queries and keys, attn_factor multiplies it.
  EXPECT_EQ(rope_with(w, {{"scaling.yarn_attn_factor", 1.25}}).attention_factor, 1.25);
  EXPECT_NEAR(rope_with(w, {{"scaling.attn_factor", 1 / (1 + 0.1 * std::log(4.0))}}).attention_factor, 1, 1e-7);
  EXPECT_EQ(rope_with(w, {{"scaling.yarn_beta_fast", 8.0}, {"scaling.yarn_beta_slow", 2.0}}).inv_freq,
            yarn_frequencies(d.rope.theta, d.rope.rotary_dim,
                             {.factor = 4, .original_context = 64, .beta_fast = 8, .beta_slow = 2}));
  EXPECT_QKGEOM_ERROR("rope.scaling.yarn_ext_factor must be 1", rope_with(w, {{"scaling.yarn_ext_factor", 0.5}}));

  // A base for windowed layers may be there where it is the same.
  EXPECT_EQ(rope_with(w, {{"freq_base_swa", d.rope.theta}}).inv_freq, d.rope.inv_freq);
  EXPECT_QKGEOM_ERROR("llama.rope.freq_base_swa, another base", rope_with(w, {{"freq_base_swa", 2 * d.rope.theta}}));

  // A factor without a type is of a linear scaling, and old files have another key for it.
  const auto unscaled = loaded_gguf("mistral");
  const auto turns = rope_with(unscaled, {}).inv_freq;
  for (const auto& [keys, factor] :
       {std::pair<std::vector<std::pair<std::string, json>>, float>{{{"scaling.factor", 4.0}}, 4.0f},
        {{{"scale_linear", 2.0}}, 2.0f},
        {{{"scaling.factor", 0.0}}, 1.0f},
        {{{"scaling.type", "none"}, {"scaling.factor", 4.0}}, 1.0f},
        {{{"scaling.type", "linear"}, {"scaling.factor", 8.0}}, 8.0f}})
    EXPECT_EQ(rope_with(unscaled, keys).inv_freq.back(), turns.back() / factor) << factor;

  // Llama 3's scaling is a list of divisors.
  auto divided = loaded_gguf("mistral");
  const auto half = d.rope.inv_freq.size();
  divided.tensors.push_back({"rope_freqs.weight", {static_cast<index_t>(half)}, "F32", std::vector<float>(half, 1)});
  divided.tensors.back().values.back() = 8;
  const auto rope = read_description(test::config_of(divided)).rope;
  const auto plain = default_frequencies(rope.theta, rope.rotary_dim);
  EXPECT_EQ(rope.inv_freq.front(), plain.front());
  EXPECT_EQ(rope.inv_freq.back(), plain.back() / 8);

  // A vector is read entry by entry, which blocks do not allow.
  auto blocks = w;
  for (auto& t : blocks.tensors)
    if (t.name == "output_norm.weight") t = {t.name, {64}, "Q8_0", std::vector<float>(64, 1)};
  EXPECT_QKGEOM_ERROR("tensor output_norm.weight has 1 dimensions in Q8_0", test::config_of(blocks));

  w.keys[0].second = "gemma7";
  EXPECT_QKGEOM_ERROR("architecture 'gemma7' is not supported in GGUF; supported: llama", test::config_of(w));
}

/// The lines of gguf-descriptions.json: a fixture, keys put over its own ("absent": taken away), what the description
/// says, also of what no key says because the architecture settles it, and perhaps why.
TEST(gguf_model, its_description_says_what_the_table_says) {
  for (const json& line : test::json_data("gguf-descriptions.json")) {
    auto w = loaded_gguf(line[0]);
    const auto is = [](const std::string& key) { return [&](const auto& own) { return own.first == key; }; };
    const auto named = std::find_if(w.keys.begin(), w.keys.end(), is("general.architecture"));
    const std::string architecture = named->second.get<std::string>() + '.';
    for (const auto& [key, value] : line[1].items()) {
      std::erase_if(w.keys, is(architecture + key));
      if (value != "absent") w.keys.emplace_back(architecture + key, value);
    }
    test::expect_said(read_description(test::config_of(w)), line);
  }
  // A layer without a router has a feed-forward of its own.
  auto mixed = loaded_gguf("qwen3-moe");
  std::erase_if(mixed.tensors, [](const auto& t) { return t.name == "blk.1.ffn_gate_inp.weight"; });
  const auto layers = read_description(test::config_of(mixed)).layers;
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(layers[i].experts, i != 1);
  // YaRN between bounds that are no whole dimensions.
  const test::scratch_folder folder;
  test::write_original("gpt-oss", folder.path());
  EXPECT_EQ(read_description(test::config_of(loaded_gguf("gpt-oss"))).rope.inv_freq,
            read_description(read_json(folder / "config.json")).rope.inv_freq);
}

TEST(gguf_model, is_found_by_file_folder_and_in_ollamas_store) {
  const test::scratch_folder folder;
  const std::string bytes = loaded_gguf("llama3").bytes();
  test::put(folder / "m-00001-of-00002.gguf", bytes);
  EXPECT_QKGEOM_ERROR("m-00002-of-00002.gguf is missing", gguf_model(folder / "m-00001-of-00002.gguf"));
  fs::create_directories(folder / "one");
  test::put(folder / "one" / "m.gguf", bytes);
  EXPECT_EQ(find_gguf(folder / "one"), folder / "one" / "m.gguf");
  fs::create_symlink(folder / "one" / "m.gguf", folder / "link");
  EXPECT_EQ(gguf_model(find_gguf(folder / "link")).config(), gguf_model(folder / "one" / "m.gguf").config());
  test::put(folder / "one" / "n.gguf", bytes);
  EXPECT_QKGEOM_ERROR("holds 2 GGUF files; name one of them", find_gguf(folder / "one"));
  EXPECT_EQ(find_gguf(data / "llama-tiny"), fs::path());
  test::put(folder / "text", "no model");
  EXPECT_QKGEOM_ERROR("neither a folder with a model nor a GGUF file", find_gguf(folder / "text"));

  for (const char* place :
       {"hf.co/Owner/Repo-GGUF", "other/owner/repo-gguf", "registry.ollama.ai/library/twice", "host/library/twice"}) {
    fs::create_directories(folder / "manifests" / place);
    test::put(folder / "manifests" / place / "Q4_1",
              R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:)" +
                  std::string(1, place[0] == 'r'   ? '1'
                                 : place[1] == 'f' ? '2'
                                                   : '3') +
                  R"("}]})");
  }
  fs::create_directories(folder / "manifests/host/library/tiny");
  fs::create_directories(folder / "blobs");
  test::put(folder / "blobs/sha256-ab", bytes);
  test::put(
      folder / "manifests/host/library/tiny/135m",
      R"({"layers":[{"mediaType":"text","digest":"sha256:cd"},{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:ab"}]})");
  ::setenv("OLLAMA_MODELS", folder.path().c_str(), 1);
  EXPECT_EQ(find_gguf("ollama:tiny:135m"), folder / "blobs" / "sha256-ab");
  capture_options of_store;
  of_store.model.path = "ollama:tiny:135m";
  std::ostringstream notes;
  EXPECT_EQ(prepare_capture(of_store, notes).manifest.model.name, "tiny:135m");
  EXPECT_QKGEOM_ERROR("Ollama has no model tiny", find_gguf("ollama:tiny"));
  const auto blob = [](const char* name) { return find_gguf(name).filename().string(); };
  EXPECT_EQ(blob("ollama:hf.co/Owner/Repo-GGUF:Q4_1"), "sha256-2");
  EXPECT_EQ(blob("ollama:HF.co/owner/repo-gguf:q4_1"), "sha256-2");
  EXPECT_EQ(blob("ollama:twice:q4_1"), "sha256-1") << "Ollama's own host comes first";
  EXPECT_EQ(blob("ollama:registry.ollama.ai/library/twice:q4_1"), "sha256-1");
  EXPECT_EQ(blob("ollama:host/library/twice:q4_1"), "sha256-3");
  EXPECT_QKGEOM_ERROR("Ollama has several models owner/repo-gguf:Q4_1", find_gguf("ollama:owner/repo-gguf:Q4_1"));
  EXPECT_QKGEOM_ERROR("Ollama has no model none/owner/repo-gguf:Q4_1", find_gguf("ollama:none/owner/repo-gguf:Q4_1"));
  const auto in_store = [&](const char* manifest) {
    test::put(folder / "manifests/host/library/tiny/latest", manifest);
    return find_gguf("ollama:tiny");
  };
  EXPECT_QKGEOM_ERROR("lists no weights", in_store(R"({"layers":[{"mediaType":"text","digest":"sha256:cd"}]})"));
  for (const std::string digest : {"../x", "sha256:../x", "sha256:ab\\u0000cd", ""})
    EXPECT_QKGEOM_ERROR(
        " is no SHA-256",
        in_store((R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":")" + digest + R"("}]})")
                     .c_str()));
  ::unsetenv("OLLAMA_MODELS");
}

TEST(gguf_model, a_split_set_is_one_model) {
  const test::scratch_folder folder;
  const auto whole = loaded_gguf("llama3");
  const auto half = static_cast<std::ptrdiff_t>(whole.tensors.size() / 2);
  written_gguf first = whole, second;
  second.integer_type = 2;  // u16, as llama.cpp has them
  second.tensors.assign(whole.tensors.begin() + half, whole.tensors.end());
  first.tensors.resize(static_cast<std::size_t>(half));
  for (auto* part : {&first, &second}) {
    part->keys.emplace_back("split.count", 2);
    part->keys.emplace_back("split.tensors.count", whole.tensors.size());
  }
  test::put(folder / "m.gguf", whole.bytes());
  fs::create_directories(folder / "set");
  test::put(folder / "set" / "m-00001-of-00002.gguf", first.bytes());
  test::put(folder / "set" / "m-00002-of-00002.gguf", second.bytes());
  const gguf_model one(folder / "m.gguf");
  const auto set = find_gguf(folder / "set");
  EXPECT_EQ(set.filename(), "m-00001-of-00002.gguf");
  EXPECT_EQ(gguf_model(set).config(), one.config());
  EXPECT_EQ(gguf_model(set).types(), one.types());
  const checkpoint of_one(folder / "m.gguf"), of_set(set);
  for (const auto& t : one.tensors()) {
    const auto& shape = t.tensor.shape;
    std::vector<float> a(static_cast<std::size_t>(shape[0] * (shape.size() > 1 ? shape[1] : 1))), b(a.size(), 0.5f);
    of_one.read(t.name, shape, 0, shape[0], false, a.data());
    of_set.read(t.name, shape, 0, shape[0], false, b.data());
    EXPECT_EQ(a, b) << t.name;
  }
}

TEST(gguf_model, golden_numbers_of_a_real_file) {
  const char* const path = std::getenv("QKGEOM_REAL_MODEL");
  if (!path) GTEST_SKIP() << "QKGEOM_REAL_MODEL=FILE names SmolLM2-135M-Instruct.Q4_1.gguf";
  ASSERT_EQ(sha256().add(test::get(path)).hex(), "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
  const gguf_file file(path);
  const json& keys = file.metadata();
  EXPECT_EQ(keys.size(), 33u);
  EXPECT_EQ(file.tensors().size(), 272u);
  EXPECT_FALSE(file.tensors().contains("output.weight"));
  std::size_t data_bytes = 0;
  for (const auto& [name, t] : file.tensors()) data_bytes += (t.bytes + 31) / 32 * 32;
  EXPECT_EQ(fs::file_size(path) - data_bytes, 1785664u);
  EXPECT_EQ(keys["tokenizer.ggml.tokens"].size(), 49152u);
  EXPECT_EQ(keys["tokenizer.ggml.merges"].size(), 48900u);
  EXPECT_EQ(keys["tokenizer.ggml.pre"], "smollm");
  EXPECT_EQ(keys["tokenizer.ggml.add_bos_token"], false);
  EXPECT_EQ(keys["tokenizer.ggml.eos_token_id"], 2);
  const gguf_model model(path);
  EXPECT_EQ(model.types(), (json{{"F32", 61}, {"Q4_1", 210}, {"Q8_0", 1}}));
  EXPECT_EQ(model.config()["bos_token_id"], 1);
  const auto d = read_description(model.config());
  EXPECT_EQ(d.model_type, "llama");
  EXPECT_EQ((std::vector{d.n_layers(), d.hidden, d.feed_forward, d.query_heads, d.key_heads, d.head_dim, d.context}),
            (std::vector<index_t>{30, 576, 1536, 9, 3, 64, 8192}));
  EXPECT_EQ(d.rope.theta, 1e5);
  EXPECT_FLOAT_EQ(static_cast<float>(d.norm_eps), 1e-5f);
  EXPECT_TRUE(d.tied);

  const checkpoint weights(path);
  const auto tensor = [&](const std::string& name, std::vector<index_t> shape, double sum) {
    std::vector<float> x(static_cast<std::size_t>(shape[0] * (shape.size() > 1 ? shape[1] : 1)));
    weights.read(name, shape, 0, shape[0], false, x.data());
    EXPECT_NEAR(std::accumulate(x.begin(), x.end(), 0.0), sum, 1e-5) << name;
    return x;
  };
  const auto begins = [](const float* x, std::initializer_list<float> golden) {
    for (const float g : golden) EXPECT_FLOAT_EQ(*x++, g);
  };
  begins(tensor("model.embed_tokens.weight", {49152, 576}, -15353.044494).data(),
         {-0.106544495f, 0.0329780579f, 0.0481987f});
  const auto q = tensor("model.layers.0.self_attn.q_proj.weight", {576, 576}, 59.223221);
  begins(&q[0], {-0.0963134766f, 0.157348633f, -0.0963134766f});
  begins(&q[1 * 576], {-0.15917969f, 0.39794922f});
  begins(&q[32 * 576], {-0.11730957f, -0.11730957f});
  begins(tensor("model.layers.0.self_attn.k_proj.weight", {192, 576}, 26.937057).data(),
         {-0.155273438f, 0.340209961f, -0.485595703f});
  begins(tensor("model.layers.29.mlp.down_proj.weight", {576, 1536}, 49.835709).data(),
         {-0.27331543f, 0.186279297f, 0.186279297f});
  begins(tensor("model.norm.weight", {576}, 1038.332031).data(), {1.7578125f});

  const tokenizer t(model.tokenizer(), nlohmann::json());
  using list = std::vector<std::int32_t>;
  EXPECT_EQ(t.encode("In the beginning God created the heaven and the earth. And the earth was without", 100),
            (list{788, 260, 3616, 1839, 2312, 260, 10419, 284, 260, 3103, 30, 1350, 260, 3103, 436, 1355}));
  EXPECT_EQ(t.encode("Hello world 12345 x  y\n\n  z", 100),
            (list{19556, 905, 216, 33, 34, 35, 36, 37, 1792, 216, 329, 8866, 1892}));

  const test::scratch_folder folder;
  test::put(
      folder / "genesis.txt",
      "In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness "
      "was upon the face of the deep. And the Spirit of God moved upon the face of the waters. And God said, Let there "
      "be light: and there was light.");
  capture_options options;
  options.model.path = path;
  options.inputs.text = {folder / "genesis.txt"};
  options.run.out = folder / "out";
  options.selection.max_length = 64;
  options.selection.sampler.kind = sampler_kind::all;
  options.statistics.loss = true;
  std::ostringstream notes;
  const capture_summary summary = run_capture(options, notes);
  EXPECT_EQ(summary.tokens, 58);
  EXPECT_NEAR(summary.loss, 1.88567, 1e-5);
  const safetensors_file shard(folder / "out" / "shard-00000.safetensors");
  const auto row_is = [&](const char* name, index_t row, std::vector<float> first, double length) {
    const auto rows = shard.values<float>(name);
    const float* const x = &rows[row * 64];
    for (std::size_t c = 0; c < first.size(); ++c) EXPECT_NEAR(x[c], first[c], 1e-5) << name << ' ' << c;
    EXPECT_NEAR(std::sqrt(std::inner_product(x, x + 64, x, 0.0)), length, 1e-5) << name;
  };
  row_is("layer.5.q", 10 * 9 + 4, {0.55108523f, -0.22792434f, 0.2434027f, 0.0815394f}, 9.919386);
  row_is("layer.5.k", 10 * 3 + 1, {0.14902497f, -0.19712742f, -0.21255643f, 0.01578742f}, 12.546017);
}

}  // namespace
