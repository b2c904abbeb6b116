// SPDX-License-Identifier: MIT
// The forward pass on a GPU against what transformers computes and against the CPU's. Skipped where there is no device.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>

#include "capture/device_cuda.hpp"
#include "tests/capture/forward_fixture.hpp"

namespace qkgeom {
namespace {

/// What each sink of a run gets, (document, layer, sink) -> values; losses are layer -1.
using handed_out = std::map<std::tuple<std::size_t, index_t, std::string>, std::vector<float>>;

handed_out everything_of(forward_pass& pass, const std::vector<token_span>& documents, rope_stage stage, bool losses) {
  handed_out out;
  const auto sink = [&](const std::string& q_name, const std::string& k_name) {
    return
        [&out, q_name, k_name](std::size_t i, index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
          for (const auto& [name, x] : {std::pair{q_name, q}, std::pair{k_name, k}}) {
            auto& to = out[{i, layer, name}];
            for (index_t t = 0; t < x.rows; ++t)
              for (index_t h = 0; h < x.heads; ++h) to.insert(to.end(), x.head(h).row(t), x.head(h).row(t) + x.dim);
          }
        };
  };
  batch_sinks sinks;
  sinks.rows = sink("q", "k");
  sinks.attended = sink("attended q", "attended k");
  if (losses)
    sinks.losses = [&](std::size_t i, const token_predictions& found) {
      auto& to = out[{i, -1, "loss"}];
      to = found.loss;
      to.insert(to.end(), found.right.begin(), found.right.end());
    };
  pass.run(documents, stage, sinks);
  return out;
}

class forward_on_gpu : public testing::Test {
 protected:
  void SetUp() override {
    try {
      cuda_forward_pass({});
    } catch (const error& e) {
      GTEST_SKIP() << e.what();
    }
  }

  static handed_out run(const forward_fixture& f, const std::vector<token_span>& documents, compute_type type,
                        rope_stage stage = rope_stage::post, resident_layers resident = resident_layers::automatic,
                        bool losses = true, int visits = 1) {
    const checkpoint model(f.folder);
    thread_pool pool(2);
    const auto description = f.description();
    const auto pass = cuda_forward_pass({resident, 4096})(description, model, type, description.n_layers() - 1, pool);
    handed_out out;
    for (int v = 0; v < visits; ++v) out = everything_of(*pass, documents, stage, losses);
    return out;
  }

  /// Queries and keys at the fixture's positions as it has them, (heads, positions, head_dim), by tensor.
  static named_tensors at_positions(const forward_fixture& f, compute_type type) {
    const safetensors_file fixture = f.open();
    const auto ids = fixture.values<std::int32_t>("ids"), positions = fixture.values<std::int32_t>("position");
    const auto description = f.description();
    named_tensors out;
    for (const auto& [key, rows] : run(f, {{ids.data(), ids.size()}}, type, rope_stage::post, {}, false)) {
      const auto& [document, layer, sink] = key;
      if (sink != "q" && sink != "k") continue;
      const index_t heads = sink == "q" ? description.query_heads : description.key_heads, d = description.head_dim;
      auto& to = out["layer." + std::to_string(layer) + "." + sink];
      for (index_t h = 0; h < heads; ++h)
        for (const std::int32_t t : positions) {
          const auto row = rows.begin() + (t * heads + h) * d;
          to.insert(to.end(), row, row + d);
        }
    }
    return out;
  }

  static void expect_f32(const forward_fixture& f) {
    const safetensors_file fixture = f.open();
    const auto all = at_positions(f, compute_type::f32);
    EXPECT_EQ(2 * (all.size() + 1), fixture.tensors().size()) << f.file;
    for (const auto& [name, ours] : all) {
      const auto theirs = widened<float>(fixture, "f32." + name);
      EXPECT_LE(distance(ours, theirs), 1e-4 * norm(theirs)) << f.file << ' ' << name;
    }
  }
};

TEST_F(forward_on_gpu, small_models_agree_with_transformers) {
  for (const char* name : {"llama-dynamic", "qwen3-moe", "gemma3", "gpt-neox", "ministral3"})
    expect_f32(family_fixture(name));
}

TEST_F(forward_on_gpu, f32_agrees_with_transformers) {
  for (const auto& f : forward_fixtures()) expect_f32(f);
}

TEST_F(forward_on_gpu, bf16_is_as_near_to_f32_as_transformers_is_and_has_its_bits_in_layer_0) {
  for (const auto& f : forward_fixtures()) {
    const safetensors_file fixture = f.open();
    for (const auto& [name, ours] : at_positions(f, compute_type::bf16)) {
      const auto exact = widened<float>(fixture, "f32." + name), theirs = widened<bf16>(fixture, "bf16." + name);
      EXPECT_LE(distance(ours, exact), 1.5 * distance(theirs, exact)) << f.file << ' ' << name;
      EXPECT_LE(distance(ours, theirs), std::sqrt(2.0) * distance(theirs, exact)) << f.file << ' ' << name;
      if (name != "layer.0.q" && name != "layer.0.k") continue;
      std::size_t same = 0;
      for (std::size_t i = 0; i < theirs.size(); ++i) same += ours[i] == theirs[i];
      EXPECT_GE(static_cast<double>(same), 0.99 * static_cast<double>(theirs.size())) << f.file << ' ' << name;
    }
  }
}

TEST_F(forward_on_gpu, every_sink_of_several_documents_gets_what_the_cpu_gives) {
  for (const std::string name : {"llama-dynamic", "qwen3-moe", "gemma3", "gpt-neox", "ministral3"})
    for (const rope_stage stage : {rope_stage::post, rope_stage::pre}) {
      const forward_fixture f = family_fixture(name);
      const safetensors_file fixture = f.open();
      const auto ids = fixture.values<std::int32_t>("ids");
      const token_span all(ids.data(), ids.size());
      const std::vector<token_span> documents{all.first(7), all, {}, all.subspan(3), all.last(1)};
      const checkpoint model(f.folder);
      thread_pool pool(2);
      const auto description = f.description();
      decoder cpu(description, model, compute_type::f32, description.n_layers() - 1, pool);
      const auto theirs = everything_of(cpu, documents, stage, true);
      auto ours = run(f, documents, compute_type::f32, stage);
      EXPECT_EQ(ours.size(), theirs.size()) << name;
      for (const auto& [key, rows] : theirs)
        EXPECT_LE(distance(ours[key], rows), 1e-5 * norm(rows))
            << name << ' ' << std::get<0>(key) << ' ' << std::get<1>(key) << ' ' << std::get<2>(key);
    }
}

TEST_F(forward_on_gpu, results_do_not_depend_on_which_layers_stay_or_on_what_ran_before) {
  for (const std::string name : {"llama-dynamic", "qwen3-moe"}) {
    const forward_fixture f = family_fixture(name);
    const safetensors_file fixture = f.open();
    const auto ids = fixture.values<std::int32_t>("ids");
    const token_span all(ids.data(), ids.size());
    const std::vector<token_span> documents{all.first(9), all};
    const auto stream = run(f, documents, compute_type::bf16, rope_stage::post, resident_layers::stream);
    for (const auto resident : {resident_layers::all, resident_layers::automatic})
      for (const int visits : {1, 3})
        EXPECT_TRUE(stream == run(f, documents, compute_type::bf16, rope_stage::post, resident, true, visits)) << name;
  }
}

}  // namespace
}  // namespace qkgeom
