// SPDX-License-Identifier: MIT
// Files that llama.cpp's converter wrote have the tensors, the queries and the keys of the checkpoints before it.
#include "capture/gguf/gguf_model.hpp"
#include "tests/capture/capture_fixture.hpp"
#include "tests/capture/forward/forward_fixture.hpp"
#include "tests/capture/gguf/gguf_fixture.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;

std::set<std::string> fixtures() {
  std::set<std::string> names;
  for (const auto& file : fs::directory_iterator(test::gguf_fixture("").parent_path()))
    names.insert(file.path().stem().string());
  return names;
}

/// Fixtures whose files lack something that config.json says: windows or which layers have them, chunks, layers without
/// rotation, the limit of experts, a second scale of YaRN.
const std::set<std::string> say_less{"mistral",     "smollm3",           "smollm3-q8_0",
                                     "qwen2",       "llama4-text",       "gpt-oss",
                                     "deepseek-v3", "deepseek-v3-fused", "deepseek-v3-direct"};

/// Largest distance over norm of a layer's queries or keys from those of the checkpoint before conversion.
double worst_distance(const std::string& name, const fs::path& file) {
  const test::scratch_folder original;
  test::write_original(name, original.path());
  const auto before = read_description(read_json(original / "config.json"));
  const auto own = read_description(gguf_model(file).config());  // the rotation and the scale are in each file
  EXPECT_NEAR(own.score_scale.value_or(0), before.score_scale.value_or(0), 1e-6) << name;
  EXPECT_EQ(own.rope.inv_freq.size(), before.rope.inv_freq.size()) << name;
  for (std::size_t i = 0; i < own.rope.inv_freq.size(); ++i)
    EXPECT_FLOAT_EQ(own.rope.inv_freq[i], before.rope.inv_freq[i]) << name << ' ' << i;
  // What the file has no keys for comes from config.json.
  const auto after = say_less.contains(name) ? before : own;
  std::vector<std::int32_t> ids(100), positions(100);
  for (int i = 0; i < 100; ++i) ids[i] = i * i % 32, positions[i] = i;
  const auto expected = rows_of(original.path(), before, ids, positions, compute_type::f32),
             found = rows_of(file, after, ids, positions, compute_type::f32);
  EXPECT_EQ(found.size(), expected.size()) << name;
  double worst = 0;
  for (const auto& [layer, values] : expected)
    worst = std::max(worst, distance(found.at(layer), values) / norm(values));
  return worst;
}

TEST(gguf_architectures, queries_and_keys_are_those_of_the_converted_checkpoint) {
  std::set<std::string> architectures;
  const test::scratch_folder folder;
  for (const std::string& name : fixtures()) {
    const bool rounded = name.ends_with("q8_0");
    const double worst = worst_distance(name, test::gguf_fixture(name));
    EXPECT_LE(worst, rounded ? 0.02 : 1e-4) << name;
    EXPECT_EQ(worst > 1e-4, rounded) << name;
    for (const char* type : {"F32", "F16"}) {
      test::put(folder / "m.gguf", test::loaded_gguf(name, type).bytes());
      EXPECT_LE(worst_distance(name, folder / "m.gguf"), rounded ? 0.02 : 1e-4) << name << ' ' << type;
    }
    architectures.insert(gguf_file(test::gguf_fixture(name)).metadata()["general.architecture"].get<std::string>());
  }
  for (const auto& a : gguf_architectures()) EXPECT_TRUE(architectures.contains(std::string(a.name))) << a.name;
}

/// Entries are exact where the file's type holds them, and none are lost.
TEST(gguf_architectures, tensors_are_those_of_the_converted_checkpoint) {
  for (const std::string& name : fixtures()) {
    const test::scratch_folder original;
    test::write_original(name, original.path());
    const checkpoint before(original.path()), after(test::gguf_fixture(name));
    const gguf_model model(test::gguf_fixture(name));
    index_t entries = 0;
    for (const auto& t : model.tensors()) {
      // The rows that a checkpoint has in one tensor are compared by what the model computes.
      const auto is = [&](std::string_view part) { return t.name.find(part) != t.name.npos; };
      if (is(".k_b_proj.") || is(".v_b_proj.")) continue;
      entries += test::entries_of(t.tensor.shape);
      if (name.starts_with("qwen3-next") && (is(".in_proj_qkv.") || is(".in_proj_z."))) continue;
      const auto& shape = t.tensor.shape;
      const index_t width = test::entries_of(shape) / shape[0], half = shape[0] / 2;
      std::vector<float> a(static_cast<std::size_t>(shape[0] * width)), b = a;
      // Granite 4 with state spaces has gate and up in one tensor.
      const bool joined = name == "granite-hybrid-spaces" && is(".mlp."), up = is(".up_proj.");
      const std::string theirs =
          !joined ? t.name
                  : t.name.substr(0, t.name.find(".mlp.")) +
                        (is(".down_proj.") ? ".shared_mlp.output_linear.weight" : ".shared_mlp.input_linear.weight");
      auto whole = shape;
      if (joined && !is(".down_proj.")) whole[0] *= 2;
      before.read(theirs, whole, joined && up ? shape[0] : 0, shape[0], false, a.data());
      after.read(t.name, shape, half, shape[0] - half, false, b.data() + half * width);
      after.read(t.name, shape, 0, half, false, b.data());
      const float bound = std::string_view(t.tensor.type->name) == "Q8_0" ? 0.0045f : t.decays ? 1e-6f : 0;
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], bound) << name << ' ' << t.name << ' ' << i;
    }
    const safetensors_file weights(original / "model.safetensors");
    for (const auto& t : weights.tensors())
      entries -= t.name.ends_with("_scales") ? 0 : test::entries_of(t.shape) * (t.name.ends_with("_blocks") ? 2 : 1);
    EXPECT_EQ(entries, 0) << name << " has more or fewer";
  }
}

/// Granite 4.0's dense models keep keys of state spaces and experts that they do not have.
TEST(gguf_architectures, granite_4_says_sizes_of_layers_that_it_lacks) {
  const test::scratch_folder folder;
  const auto written = [&](const json& key_heads) {
    auto file = test::loaded_gguf("granite");
    for (auto& [key, value] : file.keys)
      if (key == "granite.attention.head_count_kv") value = key_heads;
    for (const char* key :
         {"granite.ssm.state_size", "granite.ssm.inner_size", "granite.expert_shared_feed_forward_length"})
      file.keys.emplace_back(key, 256);
    file.keys.emplace_back("granite.expert_count", 0);
    test::put(folder / "m.gguf", file.bytes());
    return folder / "m.gguf";
  };
  const index_t n = read_description(gguf_model(test::gguf_fixture("granite")).config()).key_heads;
  const auto layers = static_cast<std::size_t>(gguf_model(test::gguf_fixture("granite")).config()["num_hidden_layers"]);
  EXPECT_LE(worst_distance("granite", written(std::vector(layers, n))), 1e-4);
  std::vector<index_t> mixed(layers, n);
  mixed.back() = 0;
  const auto file = written(mixed);
  EXPECT_QKGEOM_ERROR("a number of key heads for each layer", gguf_model{file});
  const auto& granite = find_architecture("granite", json::object(), "m");
  EXPECT_QKGEOM_ERROR("blk.0.ssm_in.weight", name_of_tensor(granite, "blk.0.ssm_in.weight", "m"));
}

TEST(gguf_architectures, glm_5_has_an_indexer_in_each_layer_and_glm_5_2_in_each_fourth) {
  const auto indexers = [&](index_t context, index_t gating = 2) {
    auto file = test::loaded_gguf("glm-5");
    std::erase_if(file.keys, [](const auto& key) { return key.first.ends_with(".indexer.types"); });
    for (auto& [key, own] : file.keys) {
      if (key == "glm-dsa.context_length") own = context;
      if (key == "glm-dsa.block_count") own = 8;
      if (key == "glm-dsa.expert_gating_func") own = gating;
    }
    std::string found;
    for (const auto& layer : read_description(test::config_of(file)).layers) found += layer.indexer ? 'F' : 'S';
    return found;
  };
  EXPECT_EQ(indexers(202752), "FFFFFFFF");
  EXPECT_EQ(indexers(1048576), "FFFSSSFS");
  EXPECT_QKGEOM_ERROR("expert_gating_func must be 2, a sigmoid", indexers(202752, 1));
}

/// GPT-OSS as it is released: experts in MXFP4, which the file has in another order of nibbles than safetensors.
TEST(gguf_architectures, fixtures_have_experts_in_mxfp4_and_in_one_tensor) {
  EXPECT_EQ(gguf_model(test::gguf_fixture("gpt-oss")).types()["MXFP4"], 9);  // three in each layer
  for (const char* name : {"qwen3.5-moe-fused", "qwen3-next-fused", "deepseek-v3-fused"}) {
    const gguf_file file(test::gguf_fixture(name));
    EXPECT_TRUE(std::any_of(file.tensors().begin(), file.tensors().end(), [](const auto& t) {
      return t.first.ends_with("ffn_gate_up_exps.weight");
    })) << name;
  }
}

}  // namespace
}  // namespace qkgeom
