// SPDX-License-Identifier: MIT
// Heads with the weights of another checkpoint: the other model here is the same with some tensors negated, so that a
// head that is restored has the negative of its rows, whatever the layout of the checkpoint.
#include "capture/evaluate/restore.hpp"

#include "tests/capture/evaluate/evaluated_model.hpp"
#include "tests/capture/forward/forward_fixture.hpp"

namespace {

using namespace qkgeom;
using testing::HasSubstr;
namespace fs = std::filesystem;

class restored_heads : public test::in_scratch_folder {
 protected:
  using part = restored_part;

  /// Opens a family's model, and beside it the model in which every tensor that `chosen` chooses is negated.
  void open(const std::string& family, const std::function<bool(const std::string&)>& chosen) {
    const fs::path model = test::family_folder(family);
    d = read_description(read_json(model / "config.json"));
    weights.emplace(model);
    auto negated = read_weights(model);
    for (auto& [name, t] : negated)
      if (chosen(name))
        for (bf16& x : t.values) x.bits ^= 0x8000;
    other = folder / family;
    write_weights(other, negated);
    fs::copy_file(model / "config.json", other / "config.json", fs::copy_options::overwrite_existing);
    layer = 0;
    while (!d.attends(layer)) ++layer;
  }
  void open_projections(const std::string& family) {
    open(family, [](const std::string& name) {
      return name.find("norm") == name.npos && (name.find("attn") != name.npos || name.find("attention") != name.npos);
    });
  }
  /// Queries and keys of the first layer that attends, a vector per head, with heads of this layer restored.
  std::vector<std::vector<float>> rows(const std::vector<std::pair<index_t, part>>& heads) {
    condition c{"some", {}};
    for (const auto& [head, what] : heads) c.changes.push_back({.head = {layer, head}, .restore = what});
    const checkpoint mixed = restoring(d, other).restored(*weights, c, notes);
    thread_pool pool(2);
    const auto pass = cpu_forward_pass(d, mixed, compute_type::f32, layer, pool);
    std::vector<std::vector<float>> all;
    const std::vector<std::int32_t> ids{5, 9, 2, 44, 17};
    run_document(*pass, ids, rope_stage::pre, [&](index_t l, auto q, auto k) {
      for (const auto& x : {q, k})
        for (index_t h = 0; l == layer && h < x.heads; ++h)
          all.push_back(values_of({x.head(h).data, x.rows, 1, x.dim, x.row_stride, 0}));
    });
    return all;
  }
  /// Expects negated rows of these heads alone; keys are numbered after the queries.
  void expect_negated(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& as_it_is,
                      const std::set<index_t>& negated) {
    ASSERT_EQ(got.size(), as_it_is.size());
    for (index_t h = 0; h < static_cast<index_t>(got.size()); ++h) {
      auto want = as_it_is[static_cast<std::size_t>(h)];
      if (negated.contains(h))
        for (float& x : want) x = -x;
      EXPECT_EQ(got[static_cast<std::size_t>(h)], want) << d.model_type << ", head " << h;
    }
  }

  decoder_description d;
  std::optional<checkpoint> weights{};
  fs::path other;
  index_t layer = 0;
  std::ostringstream notes;
};

TEST_F(restored_heads, have_the_other_models_rows_in_every_layout) {
  for (const char* family : {"qwen2", "phi3", "gpt-neox", "glm4", "qwen3-next", "olmo2", "qwen3", "gemma3"}) {
    SCOPED_TRACE(family);
    open_projections(family);
    const index_t readers = d.query_heads / d.heads_of(d.layers[layer]).key_heads, last = d.query_heads - 1;
    const auto as_it_is = rows({});
    expect_negated(rows({{last, part::query}}), as_it_is, {last});
    std::set<index_t> group{d.query_heads};
    for (index_t h = 0; h < readers; ++h) group.insert(h);
    expect_negated(rows({{readers - 1, part::shared_keys}}), as_it_is, group);
  }
}

TEST_F(restored_heads, take_norms_of_their_own_and_shared_ones_together) {
  const auto norms = [](const std::string& name) {
    return name.find("q_norm") != name.npos || name.find("k_norm") != name.npos;
  };
  open("olmo2", norms);
  expect_negated(rows({{1, part::query}}), rows({}), {1});
  EXPECT_EQ(notes.str(), "");
  open("qwen3", norms);
  const auto as_it_is = rows({});
  expect_negated(rows({{1, part::query}}), as_it_is, {});
  EXPECT_THAT(notes.str(), HasSubstr("all heads of layer 0 share self_attn.q_norm, which stays"));
  std::vector<std::pair<index_t, part>> all;
  std::set<index_t> both;
  for (index_t h = 0; h < d.query_heads; ++h) all.emplace_back(h, part::shared_keys);
  for (index_t h = 0; h < static_cast<index_t>(as_it_is.size()); ++h) both.insert(h);
  expect_negated(rows(all), as_it_is, both);
}

TEST_F(restored_heads, of_weights_that_do_not_fit_are_refused) {
  open_projections("phi3");
  const condition one{"one", {{.head = {0, 0}, .restore = part::query}}};
  const auto refusal = [&](const fs::path& from) {
    return test::message_of([&] { restoring(d, from).restored(*weights, one, notes); });
  };
  EXPECT_THAT(refusal(test::family_folder("qwen2")), HasSubstr("has another shape: qwen2"));
  EXPECT_THAT(refusal(folder / "nowhere"), HasSubstr("neither model.safetensors"));
  const std::vector<std::byte> bytes(80 * 48 * 4);
  const std::string name = "model.layers.0.self_attn.qkv_proj.weight";
  const auto with = [&](const char* type, std::vector<index_t> shape, std::size_t size) {
    const std::span<const std::byte> data(bytes.data(), size);
    write_safetensors(other / "model.safetensors",
                      {{name, type, std::move(shape), data},
                       {"model.embed_tokens.weight", "BF16", {1, 1}, std::span(data).first(2)}});
    return refusal(other);
  };
  EXPECT_THAT(with("F8_E4M3", {80, 48}, 80 * 48), HasSubstr("it must be BF16, F16 or F32 of safetensors, not F8_E4M3"));
  EXPECT_THAT(with("F32", {80, 48}, 80 * 48 * 4), HasSubstr("and F32 (80, 48) in"));
  EXPECT_THAT(with("BF16", {78, 48}, 78 * 48 * 2), HasSubstr("and BF16 (78, 48) in"));
  test::put(other / "model.gguf", "GGUF");
  EXPECT_THAT(refusal(other / "model.gguf"), HasSubstr("is GGUF"));
  open("deepseek-v3", [](const std::string&) { return false; });
  EXPECT_QKGEOM_ERROR("heads of latent attention cannot be restored", restoring(d, other));
}

class restored_model : public test::evaluated_model {
 protected:
  restored_model() {
    o.capture.inputs.tokenizer = test::bundled / "tokenizer.json";
    o.capture.selection.max_length = 128;
    o.restore_from = test::bundled / "stage3-step-150";
  }
};

TEST_F(restored_model, has_as_a_written_checkpoint_the_losses_of_the_condition) {
  const json mixed{{{"head", "1.2"}, {"restore", "query"}},
                   {{"head", "3.5"}, {"restore", "shared_keys"}},
                   {{"head", "3.0"}, {"restore", "query"}}};
  write_conditions({{{"name", "mixed"}, {"changes", mixed}}, {{"name", "afterwards"}, {"changes", json::array()}}});
  const auto got = evaluated();
  EXPECT_NE(got.at("mixed"), got.at("none"));
  EXPECT_EQ(got.at("afterwards"), got.at("none"));
  condition("mixed", mixed);
  const fs::path written = folder / "written";
  fs::create_directories(written);
  write_restored(o, written, notes);
  o.conditions.clear();
  o.restore_from.clear();
  o.capture.model.path = written;
  EXPECT_EQ(evaluated().at("none"), got.at("mixed"));
}

TEST_F(restored_model, is_refused_where_conditions_do_not_say_one) {
  condition("a", {{{"head", "0.1"}, {"ablate", true}}});
  EXPECT_QKGEOM_ERROR("one condition, whose changes are all", write_restored(o, folder.path(), notes));
  condition("a", {{{"head", "0.1"}, {"restore", "query"}}});
  EXPECT_QKGEOM_ERROR("must name another folder", write_restored(o, o.capture.model.path, notes));
  o.capture.model.untrained = 1;
  EXPECT_QKGEOM_ERROR("weights that are drawn have no rows to replace", evaluate_model(o, notes));
  EXPECT_QKGEOM_ERROR("not --untrained", write_restored(o, folder.path(), notes));
}

}  // namespace
