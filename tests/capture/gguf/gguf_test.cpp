// SPDX-License-Identifier: MIT
// Models in GGUF: blocks have the bits of the Python package `gguf`, a file is not believed, and a model gives what its
// safetensors give. QKGEOM_REAL_MODEL=FILE names SmolLM2-135M-Instruct.Q4_1.gguf, whose golden numbers are then
// checked.
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

// hostile_gguf_test.cpp has what a file must not say.
TEST(gguf_file, reads_what_was_written_and_ends_whatever_it_reads) {
  const test::scratch_folder folder;
  const auto read = [&](const std::string& bytes) {
    test::put(folder / "f.gguf", bytes);
    gguf_file file(folder / "f.gguf");
  };
  const auto refusal_of = [&](const std::string& bytes) { return test::message_of([&] { read(bytes); }); };
  written_gguf w{.keys = {{"general.architecture", "llama"}, {"list", {1, 2}}},
                 .tensors = {{"a", {2, 4}, "F32", std::vector<float>(8, 1)}}};
  const std::string whole = w.bytes();
  EXPECT_NO_THROW(read(whole));
  w.version = 2;
  EXPECT_NO_THROW(read(w.bytes()));
  w.keys.emplace_back("general.alignment", w.alignment = 256);
  EXPECT_NO_THROW(read(w.bytes()));
  w.magic = "GGUG";
  EXPECT_THAT(refusal_of(w.bytes()), testing::HasSubstr("is not a GGUF file"));
  EXPECT_THAT(refusal_of(whole.substr(0, whole.size() - 33)), testing::HasSubstr("it may be cut short"));
  for (std::size_t n = 0; n < 96; ++n) EXPECT_NE(refusal_of(whole.substr(0, n)), "") << n;
  for (std::size_t at = 4; at < 160; ++at)
    for (const char x : {'\0', '\x7f', '\xff'}) {
      auto bytes = whole;
      bytes[at] = x;
      try {
        read(bytes);
      } catch (const error&) {
      }
    }
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

class gguf_capture : public test::capture_test {};

TEST_F(gguf_capture, is_that_of_its_safetensors) {
  fs::create_directories(folder / "original");
  test::write_original("llama3", folder / "original");
  test::put(folder / "tiny.gguf", loaded_gguf("llama3").bytes());
  options.inputs.tokenizer = write("tokenizer.json", test::letter_tokenizer().dump());
  options.inputs.text = {write("a.txt", "thequickbrownfoxjumpsoverthelazydog"),
                         write("b.txt", "waltznymphforquickjigsvexbud")};
  options.selection.sampler.kind = sampler_kind::all;
  options.model.path = folder / "original";
  captured("a");
  options.model.path = folder / "tiny.gguf";
  captured("b");
  const json manifest = read_json(folder / "b" / "manifest.json");
  EXPECT_EQ(manifest["gguf"]["file"], "tiny.gguf");
  EXPECT_EQ(manifest["model"]["name"], "tiny");
  EXPECT_EQ(manifest["gguf"]["types"], (json{{"F16", 23}, {"F32", 8}}));
  EXPECT_EQ(manifest["model"]["config_sha256"], sha256().add(gguf_model(folder / "tiny.gguf").config().dump()).hex());
  const safetensors_file a(folder / "a" / "shard-00000.safetensors"), b(folder / "b" / "shard-00000.safetensors");
  ASSERT_FALSE(a.tensors().empty());
  for (const auto& t : a.tensors())
    EXPECT_TRUE(std::ranges::equal(std::span(t.data, t.bytes), std::span(b.at(t.name).data, b.at(t.name).bytes)))
        << t.name;
}

TEST(gguf_model, its_name_and_its_list_of_divisors_are_in_config_json) {
  auto w = loaded_gguf("mistral");
  w.keys.emplace_back("general.name", "tiny");
  EXPECT_EQ(test::config_of(w)["_name_or_path"], "tiny");
  // Llama 3's scaling is a list of divisors.
  const auto plain = read_description(test::config_of(w)).rope.inv_freq;
  std::vector<float> divisors(plain.size(), 1);
  divisors.back() = 8;
  w.tensors.push_back({"rope_freqs.weight", {static_cast<index_t>(plain.size())}, "F32", divisors});
  const auto divided = read_description(test::config_of(w)).rope.inv_freq;
  EXPECT_EQ(divided.front(), plain.front());
  EXPECT_EQ(divided.back(), plain.back() / 8);
  // A vector is read entry by entry, which blocks do not allow.
  for (auto& t : w.tensors)
    if (t.name == "output_norm.weight") t = {t.name, {64}, "Q8_0", {}, std::string(2 * 34, '\0')};
  EXPECT_QKGEOM_ERROR("tensor output_norm.weight has 1 dimensions in Q8_0", test::config_of(w));
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

  ::setenv("OLLAMA_MODELS", folder.path().c_str(), 1);
  const auto put_manifest = [&](const std::string& model, const std::string& digest) {
    const fs::path path = folder / "manifests" / model;
    fs::create_directories(path.parent_path());
    test::put(path,
              R"({"layers":[{"mediaType":"text","digest":"sha256:cd"},
                 {"mediaType":"application/vnd.ollama.image.model","digest":")" +
                  digest + R"("}]})");
  };
  fs::create_directories(folder / "blobs");
  test::put(folder / "blobs/sha256-ab", bytes);
  put_manifest("host/library/tiny/135m", "sha256:ab");
  put_manifest("registry.ollama.ai/library/twice/Q4_1", "sha256:1");
  put_manifest("hf.co/Owner/Repo-GGUF/Q4_1", "sha256:2");
  put_manifest("other/owner/repo-gguf/Q4_1", "sha256:3");
  put_manifest("host/library/twice/Q4_1", "sha256:4");
  for (const auto& [name, blob] : {std::pair{"tiny:135m", "ab"},
                                   {"hf.co/Owner/Repo-GGUF:Q4_1", "2"},
                                   {"HF.co/owner/repo-gguf:q4_1", "2"},
                                   {"twice:q4_1", "1"},  // Ollama's own host comes first
                                   {"registry.ollama.ai/library/twice:q4_1", "1"},
                                   {"host/library/twice:q4_1", "4"}})
    EXPECT_EQ(find_gguf(std::string("ollama:") + name), folder / "blobs" / (std::string("sha256-") + blob));
  capture_options of_store;
  of_store.model.path = "ollama:tiny:135m";
  std::ostringstream notes;
  EXPECT_EQ(prepare_capture(of_store, notes).manifest.model.name, "tiny:135m");
  EXPECT_QKGEOM_ERROR("Ollama has no model tiny", find_gguf("ollama:tiny"));
  EXPECT_QKGEOM_ERROR("Ollama has several models owner/repo-gguf:Q4_1", find_gguf("ollama:owner/repo-gguf:Q4_1"));
  EXPECT_QKGEOM_ERROR("Ollama has no model none/owner/repo-gguf:Q4_1", find_gguf("ollama:none/owner/repo-gguf:Q4_1"));
  for (const char* digest : {"../x", "sha256:../x", "sha256:ab\\u0000cd", ""}) {
    put_manifest("host/library/tiny/latest", digest);
    EXPECT_QKGEOM_ERROR(" is no SHA-256", find_gguf("ollama:tiny"));
  }
  test::put(folder / "manifests/host/library/tiny/latest", R"({"layers":[{"mediaType":"text","digest":"sha256:cd"}]})");
  EXPECT_QKGEOM_ERROR("lists no weights", find_gguf("ollama:tiny"));
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
  const gguf_model model(path);
  EXPECT_EQ(model.types(), (json{{"F32", 61}, {"Q4_1", 210}, {"Q8_0", 1}}));
  EXPECT_EQ(model.config()["bos_token_id"], 1);
  const checkpoint weights(path);
  std::vector<float> q(576 * 576);
  weights.read("model.layers.0.self_attn.q_proj.weight", {576, 576}, 0, 576, false, q.data());
  EXPECT_NEAR(std::accumulate(q.begin(), q.end(), 0.0), 59.223221, 1e-5);
  EXPECT_FLOAT_EQ(q[1 * 576 + 1], 0.39794922f);
  EXPECT_FLOAT_EQ(q[32 * 576], -0.11730957f);
  const tokenizer t(model.tokenizer(), nlohmann::json());
  EXPECT_EQ(t.encode("Hello world 12345 x  y\n\n  z", 100),
            (std::vector<std::int32_t>{19556, 905, 216, 33, 34, 35, 36, 37, 1792, 216, 329, 8866, 1892}));

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
