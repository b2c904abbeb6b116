// SPDX-License-Identifier: MIT
// Heads changed in the forward pass, against checkpoints whose weights are changed; probes; what qkgeom-evaluate
// writes.
#include "capture/evaluate/evaluate.hpp"

#include "capture/evaluate/probes.hpp"
#include "capture/forward/cpu_forward_pass.hpp"
#include "capture/forward/layer_weights.hpp"
#include "capture/model/head_changes.hpp"
#include "capture/text/tokenizer.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/io/json.hpp"
#include "qkgeom/io/safetensors.hpp"
#include "tests/capture/evaluate/evaluated_model.hpp"
#include "tests/capture/forward/forward_fixture.hpp"
#include "tests/common/data_files.hpp"

namespace {

using namespace qkgeom;
using testing::HasSubstr;
namespace fs = std::filesystem;
using named_weights = model_weights<float>;

constexpr index_t changed_tokens = 96, changed_dim = 32;

/// A bundled checkpoint in f32 without rotary embedding in layer 0. The embeddings of its first words encode positions:
/// all have one norm, and coordinate 0 of word t is t / changed_tokens.
class changed_model : public testing::Test {
 protected:
  changed_model() {
    for (const auto& [name, t] : read_weights(test::bundled / "stage2-step-1400"))
      tensors[name] = {t.shape, {t.values.begin(), t.values.end()}};
    auto& embedding = tensors.at("model.embed_tokens.weight").values;
    for (index_t t = 0; t < changed_tokens; ++t) {
      float* const row = embedding.data() + t * 128;
      double rest = 0;
      for (int c = 2; c < 128; ++c) rest += double{row[c]} * row[c];
      for (int c = 2; c < 128; ++c) row[c] = static_cast<float>(row[c] * std::sqrt(126 / rest));
      const double s = static_cast<double>(t) / changed_tokens;
      row[0] = static_cast<float>(s);
      row[1] = static_cast<float>(std::sqrt(2 - s * s));
      ids.push_back(static_cast<std::int32_t>(t));
    }
  }
  /// Writes a checkpoint with these weights and returns its folder.
  fs::path written(const named_weights& w) {
    const fs::path model = folder / std::to_string(models++);
    write_weights(model, w);
    return model;
  }
  /// q and k of every layer of the checkpoint with these weights.
  named_tensors rows(const named_weights& w, const std::vector<head_change>& changes = {},
                     compute_type type = compute_type::f32) {
    json config = read_json(test::bundled / "stage2-step-1400/config.json");
    config["no_rope_layers"][0] = 0;
    return rows_of(written(w), read_description(config), ids, ids, type,
                   [&](const auto& d, const checkpoint& read, compute_type t, index_t last, thread_pool& pool) {
                     auto forward = cpu_forward_pass(d, read, t, last, pool);
                     forward->change(changes);
                     return forward;
                   });
  }

  test::scratch_folder folder;
  named_weights tensors;
  std::vector<std::int32_t> ids;
  int models = 0;
};

/// The distance of one tensor of two models, over its norm.
double apart(const named_tensors& a, const named_tensors& b, const std::string& name) {
  return distance(a.at(name), b.at(name)) / norm(b.at(name));
}

TEST_F(changed_model, an_ablated_head_is_one_whose_output_weights_are_0) {
  named_weights without = tensors;
  for (const auto& [layer, head] : {std::pair{0, 3}, std::pair{2, 7}}) {
    auto& o = without.at("model.layers." + std::to_string(layer) + ".self_attn.o_proj.weight").values;
    for (int row = 0; row < 128; ++row)
      for (int c = 0; c < changed_dim; ++c) o[row * 256 + head * changed_dim + c] = 0;
  }
  const auto want = rows(without), as_it_is = rows(tensors),
             got = rows(tensors, {{{0, 3}, true, {}, 0}, {{2, 7}, true, {}, 0}});
  EXPECT_EQ(got, want);
  EXPECT_EQ(got.at("layer.0.k"), as_it_is.at("layer.0.k"));
  EXPECT_GT(apart(got, as_it_is, "layer.1.k"), 0.01);
}

TEST_F(changed_model, clamped_keys_are_those_of_weights_without_the_slope) {
  // Key head 0, which heads 0 to 3 read, loses slope (t - centre). A constant shift of keys changes no softmax.
  std::vector<double> slope(changed_dim);
  for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = 0.2 * std::sin(1.0 + static_cast<double>(i));
  named_weights without = tensors;
  const auto& norm_weight = tensors.at("model.layers.0.input_layernorm.weight").values;
  auto& k = without.at("model.layers.0.self_attn.k_proj.weight").values;
  for (std::size_t i = 0; i < slope.size(); ++i)
    k[i * 128] -= static_cast<float>(slope[i] * changed_tokens / static_cast<double>(norm_weight[0]));
  std::vector<head_change> changes;
  for (index_t h = 0; h < 4; ++h) changes.push_back({{0, h}, false, slope, 40.5});
  const auto want = rows(without), as_it_is = rows(tensors), got = rows(tensors, changes);
  for (const char* name : {"layer.1.q", "layer.1.k", "layer.2.q", "layer.7.k"}) {
    EXPECT_LT(apart(got, want, name), 2e-5) << name;
    EXPECT_GT(apart(got, as_it_is, name), 5e-3) << name;
  }
  // One head alone changes less, and a slope of 0 nothing.
  changes.resize(1);
  const auto one = rows(tensors, changes);
  EXPECT_GT(apart(one, as_it_is, "layer.1.k"), 5e-4);
  EXPECT_GT(apart(one, got, "layer.1.k"), 5e-4);
  EXPECT_GT(apart(rows(tensors, changes, compute_type::bf16), rows(tensors, {}, compute_type::bf16), "layer.1.k"),
            5e-4);
  changes[0].key_slope.assign(changed_dim, 0.0);
  EXPECT_LT(apart(rows(tensors, changes), as_it_is, "layer.7.k"), 1e-5);
}

TEST_F(changed_model, keys_of_a_cache_lose_what_an_outlier_makes_small) {
  // Coordinate 0 of key head 0 is far above the others and no query reads it. To four bits the others are 0, so that
  // all keys of a document are alike: as with keys of 0.
  named_weights outlier = tensors, without = tensors;
  auto& q = outlier.at("model.layers.0.self_attn.q_proj.weight").values;
  for (int h = 0; h < 4; ++h)
    for (int c = 0; c < 128; ++c) q[h * changed_dim * 128 + c] = 0;
  auto& k = outlier.at("model.layers.0.self_attn.k_proj.weight").values;
  for (int c = 0; c < 128; ++c) k[c] = c == 1 ? 1000.0f : 0.0f;
  without.at("model.layers.0.self_attn.q_proj.weight").values = q;
  auto& zero = without.at("model.layers.0.self_attn.k_proj.weight").values;
  std::fill(zero.begin(), zero.begin() + changed_dim * 128, 0.0f);
  const auto as = [](cache_type t, index_t heads) {
    std::vector<head_change> changes;
    for (index_t h = 0; h < heads; ++h) changes.push_back({.head = {0, h}, .keys_as = t});
    return changes;
  };
  const auto want = rows(without), as_it_is = rows(outlier), got = rows(outlier, as(cache_type::q4_0, 4));
  EXPECT_EQ(got.at("layer.0.k"), as_it_is.at("layer.0.k")) << "sinks get keys as they are before the change";
  for (const char* name : {"layer.1.q", "layer.1.k", "layer.7.k"}) {
    EXPECT_LT(apart(got, want, name), 1e-5) << name;
    EXPECT_GT(apart(as_it_is, want, name), 1e-3) << name;
  }
  EXPECT_LT(apart(rows(outlier, as(cache_type::f32, 4)), as_it_is, "layer.7.k"), 1e-5);
  // One head alone changes less; without the outlier eight bits keep most.
  EXPECT_GT(apart(rows(outlier, as(cache_type::q4_0, 1)), got, "layer.1.k"), 1e-4);
  const double plain = apart(rows(tensors, as(cache_type::q8_0, 8)), rows(tensors), "layer.1.k");
  EXPECT_TRUE(plain > 1e-6 && plain < 2e-3) << plain;
}

TEST_F(changed_model, an_output_matrix_of_its_own_counts_before_the_embedding) {
  auto model = read_description(read_json(test::bundled / "stage2-step-1400/config.json"));
  ASSERT_TRUE(model.tied);
  const auto output = [&](const named_weights& w) { return find_output(model, checkpoint(written(w)), "model.").name; };
  EXPECT_EQ(output(tensors), "model.embed_tokens.weight");
  auto with_own = tensors;
  with_own["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  EXPECT_EQ(output(with_own), "lm_head.weight");
  model.tied = false;
  EXPECT_EQ(output(with_own), "lm_head.weight");
  EXPECT_QKGEOM_ERROR("no tensor lm_head.weight", output(tensors));
}

TEST(probes, copies_begin_again_and_are_the_same_everywhere) {
  const auto p = copy_probe(1000, 100, 3, 7), again = copy_probe(1000, 100, 3, 7), other = copy_probe(1000, 100, 4, 7);
  ASSERT_EQ(p.ids.size(), 172u);
  EXPECT_EQ(p.first, 108);
  for (std::size_t i = 100; i < p.ids.size(); ++i) EXPECT_EQ(p.ids[i], p.ids[i - 100]);
  EXPECT_GE(*std::min_element(p.ids.begin(), p.ids.end()), 1);
  EXPECT_LT(*std::max_element(p.ids.begin(), p.ids.end()), 1000);
  EXPECT_EQ(p.ids, again.ids);
  EXPECT_NE(p.ids, other.ids);
  EXPECT_EQ(copy_probe(1000, 20, 0, 7).ids.size(), 40u);
  EXPECT_QKGEOM_ERROR("above 8 tokens", copy_probe(1000, 8, 0, 7));
}

TEST(probes, lookups_ask_for_the_first_record) {
  const auto words = read_record_words(test::bundled / "records.json");
  const auto t = tokenizer::load(test::bundled / "tokenizer.json");
  const auto encode = [&](std::string_view text) { return t.encode(text, 100000); };
  const std::vector<std::int32_t> text(1000, 77);
  std::set<std::vector<std::int32_t>> seen;
  for (index_t trial = 0; trial < 20; ++trial) {
    const auto p = lookup_probe(words, encode, text, 300, trial, 1);
    ASSERT_EQ(p.ids.size(), 301u);
    EXPECT_EQ(p.first, 300);
    // The end repeats the beginning, up to the token that is asked for.
    const auto before = encode("The lot of");
    std::size_t start = p.ids.size() - 1;
    while (!std::equal(before.begin(), before.end(), p.ids.begin() + static_cast<std::ptrdiff_t>(start))) --start;
    ASSERT_GT(start, 280u);
    for (std::size_t i = start; i < p.ids.size(); ++i) EXPECT_EQ(p.ids[i], p.ids[i - start]);
    // Nine records and the question.
    index_t records = 0;
    for (std::size_t i = 0; i + before.size() <= p.ids.size(); ++i)
      records += std::equal(before.begin(), before.end(), p.ids.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(records, 10);
    seen.insert(p.ids);
  }
  EXPECT_EQ(seen.size(), 20u);
  EXPECT_QKGEOM_ERROR("too short for nine records", lookup_probe(words, encode, text, 60, 0, 1));
  EXPECT_QKGEOM_ERROR("longer text", lookup_probe(words, encode, std::span(text).first(50), 600, 0, 1));
}

class evaluation : public test::evaluated_model {
 protected:
  evaluation() {
    o.capture.selection.max_length = 256;
    o.trials = 3;
  }
  /// Asks for probes at one distance, and for lookups.
  void probe_at(index_t distance) {
    o.records = test::bundled / "records.json";
    o.distances = {distance};
  }
  /// Returns the losses of one condition, or of none.
  std::vector<double> losses(const json& changes = json::array()) {
    condition("changed", changes);
    if (changes.empty()) o.conditions.clear();
    return evaluated().at(changes.empty() ? "none" : "changed");
  }
  /// Goes on with a copy of the model whose config.json is changed.
  template <class Change>
  void change_model(const Change& change) {
    test::copy_model(folder / "changed", "stage2-step-1400");
    test::change_config(o.capture.model.path = folder / "changed", change);
  }
};

/// Heads of a layer, each ablated, but one.
json ablated_heads(int layer, int but = -1) {
  json changes = json::array();
  for (int h = 0; h < 8; ++h)
    if (h != but) changes.push_back({{"head", std::to_string(layer) + '.' + std::to_string(h)}, {"ablate", true}});
  return changes;
}

/// Returns the largest difference of two lists.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST_F(evaluation, gives_heads_the_embedding_that_an_option_gives_the_model) {
  const auto as_it_is = losses();
  json all_yarn, all_base;
  for (const int layer : {0, 1, 2, 4, 5, 6}) {  // layers 3 and 7 have no rotary embedding
    all_yarn.push_back({{"layer", layer}, {"rope", {{"scaling", "yarn:4:64"}}}});
    all_base.push_back({{"layer", layer}, {"rope", {{"theta", 500}}}});
  }
  const auto with_yarn = losses(all_yarn), with_base = losses(all_base);
  o.capture.model.rope_scaling = "yarn:4:64";
  EXPECT_LT(largest_difference(with_yarn, losses()), 2e-5);
  o.capture.model.rope_scaling.clear();
  o.capture.model.rope_theta = 500;
  EXPECT_LT(largest_difference(with_base, losses()), 2e-5);
  for (const auto& changed : {with_yarn, with_base}) EXPECT_GT(largest_difference(changed, as_it_is), 0.05);
}

TEST_F(evaluation, a_base_alone_drops_no_scaling) {
  o.capture.model.rope_scaling = "linear:4";
  condition("a", {{{"layer", 1}, {"rope", {{"theta", 500}}}}});
  EXPECT_QKGEOM_ERROR("has the scaling linear", evaluate_model(o, notes));
  condition("a", {{{"layer", 1}, {"rope", {{"theta", 500}, {"scaling", "none"}}}}});
  evaluate_model(o, notes);
}

TEST_F(evaluation, does_not_find_logits_right_that_are_no_numbers) {
  o.distances = {160};
  condition("broken", {{{"layer", 1}, {"rope", {{"theta", 1e-300}}}}});
  evaluate_model(o, notes);
  const auto probes = read_csv(o.capture.run.out / "condition_probes.csv");
  const auto right = probes.numbers("right");
  for (std::size_t i = 0; i < right.size(); ++i)
    if (probes.column("condition")[i] == "broken") {
      EXPECT_EQ(right[i], 0) << i;
    }
  EXPECT_THAT(notes.str(), HasSubstr("losses are no numbers under 1 of 2 conditions, such as \"broken\""));
}

TEST_F(evaluation, a_head_whose_planes_are_still_is_one_of_a_layer_without_rotation) {
  const auto with_still = [&](const json& planes) {
    json changes = ablated_heads(1, 5);
    changes.push_back({{"head", "1.5"}, {"rope", {{"still", planes}}}});
    return losses(changes);
  };
  std::vector<int> planes(16);
  std::iota(planes.begin(), planes.end(), 0);
  const auto rotating = with_still(json::array()), all = with_still(planes), one = with_still({3});
  change_model([](json& config) { config["no_rope_layers"][1] = 0; });
  EXPECT_LT(largest_difference(all, losses(ablated_heads(1, 5))), 2e-5);
  EXPECT_GT(largest_difference(all, rotating), 1e-3);
  EXPECT_GT(largest_difference(one, rotating), 1e-5);
  EXPECT_GT(largest_difference(one, all), 1e-5);
}

TEST_F(evaluation, of_an_untrained_model_reads_no_weights) {
  o.capture.model.untrained = 3;
  for (const double loss : losses()) EXPECT_GT(loss, 6);  // ln 1024 = 6.9; the trained one has 3
}

TEST_F(evaluation, has_every_condition_document_and_probe) {
  probe_at(160);
  write_conditions(
      {{{"name", "none at all"}, {"changes", json::array()}}, {{"name", "layer 0"}, {"changes", ablated_heads(0)}}});
  evaluate_model(o, notes);
  const auto loss = read_csv(o.capture.run.out / "condition_loss.csv"),
             probes = read_csv(o.capture.run.out / "condition_probes.csv");
  ASSERT_EQ(loss.rows(), 3u * 2 * 16);
  ASSERT_EQ(probes.rows(), 3u * 2 * 3);
  EXPECT_THAT(notes.str(), HasSubstr("no condition is named RANKING/chosen/CHANGE"));
  EXPECT_THAT(notes.str(), testing::Not(HasSubstr("no numbers")));
  const auto value = loss.numbers("loss"), n = loss.numbers("tokens");
  double as_it_is = 0, changed = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(value[i], value[i + 32]) << "an empty condition changes nothing";
    EXPECT_EQ(n[i], i % 16 == 15 ? 15 : 16);
    as_it_is += value[i] * n[i];
    changed += value[i + 64] * n[i];
  }
  EXPECT_GT(changed, as_it_is);
  // The loss is the one that a capture writes.
  options = o.capture;
  options.run.out = folder / "capture";
  options.statistics.loss = true;
  const auto summary = run();
  EXPECT_NEAR(as_it_is / 510, summary.loss, 1e-6);
  // This checkpoint has learned to copy; by chance one token in 1024 is right.
  double right = 0;
  const auto found = probes.numbers("right");
  for (std::size_t i = 0; i < 6; ++i)
    if (probes.column("probe")[i] == "copy") right += found[i] / 3 / 64;
  EXPECT_GT(right, 0.5);
}

TEST_F(evaluation, does_not_depend_on_what_shares_a_visit_of_the_layers) {
  probe_at(160);
  condition("one less", {{{"head", "1.2"}, {"ablate", true}}});
  std::map<index_t, std::map<std::string, test::file_bytes>> files;
  for (const index_t batch : {1, 300, 8192}) {
    o.capture.run.batch_tokens = batch;
    evaluate_model(o, notes);
    files[batch] = test::contents_of(o.capture.run.out);
  }
  EXPECT_EQ(files[1].size(), 3u);
  EXPECT_EQ(files[300], files[1]);
  EXPECT_EQ(files[8192], files[1]);
}

TEST_F(evaluation, refuses_conditions_that_do_not_fit) {
  test::expect_refusals("conditions", [&](const json& all) {
    o.conditions = write("conditions.json", all.dump());
    evaluate_model(o, notes);
  });
  condition("a", {{{"layer", 1}, {"rope", {{"scaling", "none"}}}}});
  EXPECT_QKGEOM_ERROR("latent attention", read_conditions(o.conditions, family_fixture("deepseek-v3").description()));
  o.conditions.clear();
  o.distances = {400};
  EXPECT_QKGEOM_ERROR("more than the context of 256", evaluate_model(o, notes));
  // A probe begins with what documents begin with.
  o.distances = {184};
  evaluate_model(o, notes);
  change_model([](json& config) { config["bos_token_id"] = 5; });
  o.capture.inputs.bos = bos_rule::prepend;
  EXPECT_QKGEOM_ERROR("takes 257, more than the context of 256", evaluate_model(o, notes));
}

}  // namespace
