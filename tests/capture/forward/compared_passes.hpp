// SPDX-License-Identifier: MIT
// A forward pass, wherever it runs, against what transformers computes and against the CPU's: the same bodies for a GPU
// and for the host as a device.
#pragma once

#include "capture/forward/cpu_forward_pass.hpp"
#include "capture/job/prepare.hpp"
#include "capture/job/stores/statistics_store.hpp"
#include "capture/model/head_changes.hpp"
#include "tests/capture/forward/forward_fixture.hpp"
#include "tests/capture/forward/measured_softmax.hpp"

namespace qkgeom::test {

/// Which sinks of a run are set.
enum class asked_for { rows, losses, everything };

/// What each sink of a run gets, (document, layer, sink) -> values; losses are layer -1.
using handed_out = std::map<std::tuple<std::size_t, index_t, std::string>, std::vector<float>>;

inline handed_out run_documents(const forward_fixture& f, const std::vector<token_span>& documents, compute_type type,
                                const forward_pass_factory& make, rope_stage stage = rope_stage::post,
                                asked_for what = asked_for::everything, int visits = 1,
                                const std::vector<head_change>& changes = {}) {
  const checkpoint model(f.folder);
  thread_pool pool(2);
  const auto description = f.description();
  const auto pass = make(description, model, type, description.n_layers() - 1, pool);
  pass->change(changes);
  handed_out out;
  batch_sinks sinks;
  if (what != asked_for::losses)
    sinks.rows = [&](std::size_t i, index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
      out[{i, layer, "q"}] = values_of(q);
      out[{i, layer, "k"}] = values_of(k);
    };
  if (what != asked_for::rows)
    sinks.losses = [&](std::size_t i, const token_predictions& found) {
      auto& to = out[{i, -1, "loss"}];
      to = found.loss;
      to.insert(to.end(), found.right.begin(), found.right.end());
    };
  for (int v = 0; v < visits; ++v) {
    out.clear();
    pass->run(documents, stage, sinks);
  }
  return out;
}

/// Expects that what `ours` hands out is nearly what `theirs` does.
inline void expect_handed_out_nearly(const handed_out& ours, const handed_out& theirs, const std::string& family) {
  ASSERT_EQ(ours.size(), theirs.size()) << family;
  for (const auto& [key, values] : theirs) {
    const auto& [document, layer, sink] = key;
    EXPECT_LE(distance(ours.at(key), values), 1e-5 * norm(values))
        << family << ' ' << document << ' ' << layer << ' ' << sink;
  }
}

inline void expect_f32_as_transformers(const forward_fixture& f, const forward_pass_factory& make) {
  const safetensors_file fixture = f.open();
  const auto all = run_fixture(f, f.description(), compute_type::f32, make);
  EXPECT_EQ(2 * (all.size() + 1), fixture.tensors().size()) << f.file;  // ids, positions; f32 and bf16
  for (const auto& [name, ours] : all) {
    const auto theirs = widened<float>(fixture, "f32." + name);
    EXPECT_LE(distance(ours, theirs), 1e-4 * norm(theirs)) << f.file << ' ' << name;
  }
}

/// As near to f32 as transformers is, and its bits in layer 0. The CPU's kernels round the weights of the attention as
/// PyTorch's on the CPU do; elsewhere they are exact before they are rounded. Two errors of the same size that have
/// nothing in common are at sqrt(2), the default of `apart`.
inline void expect_bf16_near_transformers(const forward_fixture& f, const forward_pass_factory& make,
                                          double apart = std::sqrt(2.0)) {
  const safetensors_file fixture = f.open();
  // Nor does PyTorch's attention of its single operations, which some families need.
  if (const auto& m = fixture.metadata(); m.contains("attention") && m.at("attention") == "eager")
    apart = std::max(apart, std::sqrt(2.0));
  for (const auto& [name, ours] : run_fixture(f, f.description(), compute_type::bf16, make)) {
    const auto exact = widened<float>(fixture, "f32." + name), theirs = widened<bf16>(fixture, "bf16." + name);
    EXPECT_LE(distance(ours, exact), 1.5 * distance(theirs, exact)) << f.file << ' ' << name;
    EXPECT_LE(distance(ours, theirs), apart * distance(theirs, exact)) << f.file << ' ' << name;
    if (name != "layer.0.q" && name != "layer.0.k") continue;
    std::size_t same = 0;
    for (std::size_t i = 0; i < theirs.size(); ++i) same += ours[i] == theirs[i];
    EXPECT_GE(static_cast<double>(same), 0.99 * static_cast<double>(theirs.size())) << f.file << ' ' << name;
  }
}

/// Every sink of several documents of at most `tokens`, one of them empty, one of one token, gets what the CPU's
/// forward pass gives.
inline void expect_sinks_as_on_the_cpu(const std::string& family, rope_stage stage, const forward_pass_factory& make,
                                       std::size_t tokens = std::size_t(-1)) {
  const forward_fixture f = family_fixture(family);
  const auto ids = f.ids(tokens);
  const token_span all(ids);
  const std::vector<token_span> documents{all.first(7), all, {}, all.subspan(3), all.last(1)};
  expect_handed_out_nearly(run_documents(f, documents, compute_type::f32, make, stage),
                           run_documents(f, documents, compute_type::f32, on_the_cpu, stage), family);
}

/// Changes of heads do to later layers and to losses what they do on the CPU; rows of the layer itself are without
/// them.
inline void expect_changed_heads_as_on_the_cpu(const std::string& family, const forward_pass_factory& make,
                                               std::size_t tokens = std::size_t(-1)) {
  const forward_fixture f = family_fixture(family);
  const auto ids = f.ids(tokens);
  const token_span all(ids);
  const std::vector<token_span> documents{all.first(7), all};
  const auto d = f.description();
  std::vector<double> slope(d.head_dim);
  for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = 0.01 * static_cast<double>(i % 5) - 0.02;
  std::vector<head_change> changes{{{0, 1}, true, {}, 0}, {{1, d.query_heads - 1}, false, slope, 11.5}};
  if (rope_description rope = d.rope_of(d.layers[1]); d.layers[1].rope && !rope.by_length()) {
    std::fill(rope.inv_freq.begin(), rope.inv_freq.end() - static_cast<std::ptrdiff_t>(rope.inv_freq.size() / 2), 0.0f);
    changes.push_back({.head = {1, 0}, .rope = rope});
  }
  const auto run = [&](const forward_pass_factory& pass, const std::vector<head_change>& changed) {
    return run_documents(f, documents, compute_type::f32, pass, rope_stage::post, asked_for::everything, 1, changed);
  };
  const auto theirs = run(on_the_cpu, changes), without = run(on_the_cpu, {});
  expect_handed_out_nearly(run(make, changes), theirs, family);
  for (const auto& [key, values] : theirs) {
    const auto& [document, layer, sink] = key;
    if (layer == 0) {
      EXPECT_EQ(values, without.at(key)) << family << ' ' << sink;
    } else {
      EXPECT_GT(distance(values, without.at(key)), 1e-4 * norm(values)) << family << ' ' << layer << ' ' << sink;
    }
  }
}

/// What the softmax of all query heads but head 1 of all layers but one gives of several documents, of so many queries
/// of each bucket: as the pass measures it, or with `plainly` a plain softmax of the rows that it hands out.
inline std::map<std::string, std::vector<double>> softmax_of(const forward_fixture& f,
                                                             const std::vector<token_span>& documents,
                                                             const forward_pass_factory& make, index_t queries,
                                                             bool plainly) {
  const checkpoint model(f.folder);
  thread_pool pool(2);
  const auto d = f.description();
  capture_manifest manifest;
  manifest.extra["softmax"]["queries"] = queries;
  for (const token_span& document : documents)
    manifest.context_length = std::max(manifest.context_length, static_cast<index_t>(document.size()));
  for (index_t l = 0; l < d.n_layers(); ++l) {
    captured_layer_info layer;
    layer.layer = l;
    layer.window = d.layers[l].window;
    for (index_t h = 0; h < d.query_heads; ++h)
      if (h != 1) layer.query_heads.push_back(h);
    if (l != 1) manifest.layers.push_back(layer);
  }
  add_weights(manifest, d, model);
  statistics_store store(manifest, d, uniform_buckets{16}.edges(manifest.context_length), true, false);
  store.add_documents(static_cast<index_t>(documents.size()), 0);
  const auto pass = make(d, model, compute_type::f32, d.n_layers() - 1, pool);
  const auto asked = [&](std::size_t i, index_t layer) {
    return store.measured(static_cast<index_t>(i), static_cast<index_t>(documents[i].size()), layer);
  };
  batch_sinks sinks;
  if (plainly) {
    sinks.rows = [&](std::size_t i, index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
      if (const auto what = asked(i, layer)) store.add(i, layer, *what, 0, plain_softmax(q, k, *what));
    };
  } else {
    sinks.measured = asked;
    sinks.softmax = [&](std::size_t i, index_t layer, const softmax_request& what, index_t first,
                        const auto& measures) { store.add(i, layer, what, first, measures); };
  }
  pass->run(documents, rope_stage::post, sinks);
  std::map<std::string, std::vector<double>> found;
  for (const tensor_to_write& t : store.tensors()) {
    const auto* const values = reinterpret_cast<const double*>(t.data.data());
    found[t.name] = {values, values + t.data.size() / sizeof(double)};
  }
  return found;
}

/// What a pass measures of the softmax is what a plain softmax gives of the rows of the CPU's pass.
inline void expect_plain_softmax(const std::string& family, const forward_pass_factory& make,
                                 std::size_t tokens = std::size_t(-1)) {
  const forward_fixture f = family_fixture(family);
  const auto ids = f.ids(tokens);
  const token_span all(ids);
  const std::vector<token_span> documents{all.first(7), {}, all, all.last(1)};
  for (const index_t queries : {5, 16}) {  // of a bucket of 16
    const auto theirs = softmax_of(f, documents, on_the_cpu, queries, true),
               ours = softmax_of(f, documents, make, queries, false);
    ASSERT_EQ(ours.size(), theirs.size()) << family;
    EXPECT_EQ(theirs.size() % 4, 0u) << family;
    for (const auto& [name, values] : theirs) {
      const auto& got = ours.at(name);
      ASSERT_EQ(got.size(), values.size()) << family << ' ' << name;
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(got[i], values[i], 1e-4 * (1 + values[i])) << family << ' ' << name << ' ' << i;
      EXPECT_GT(std::ranges::max(values), 0.5) << family << ' ' << name;
    }
  }
}

/// Families that differ most in their steps.
inline const std::vector<std::string> varied_families{"llama-dynamic", "qwen3-moe", "gemma3", "gpt-neox",
                                                      "ministral3",    "gemma2",    "phi3"};

/// The results in bf16 of two documents of at most `tokens` do not depend on which pass runs them, on what it ran
/// before, or on whether anything but losses is asked for.
inline void expect_same_bits(const std::string& family, const forward_pass_factory& one,
                             const std::vector<forward_pass_factory>& others, std::size_t tokens = std::size_t(-1)) {
  const forward_fixture f = family_fixture(family);
  const auto ids = f.ids(tokens);
  const token_span all(ids);
  const std::vector<token_span> documents{all.first(9), all};
  const auto want = run_documents(f, documents, compute_type::bf16, one);
  // Rows before the rotation are a kernel of their own; what follows them is the same.
  for (const auto& [key, values] : run_documents(f, documents, compute_type::bf16, one, rope_stage::pre)) {
    const auto& sink = std::get<2>(key);
    if (sink == "q" || sink == "k") continue;
    EXPECT_TRUE(values == want.at(key)) << family << " before the rotation " << sink;
  }
  for (const auto& other : others)
    for (const auto& [what, visits] :
         {std::pair{asked_for::everything, 1}, {asked_for::everything, 3}, {asked_for::losses, 1}}) {
      const auto got = run_documents(f, documents, compute_type::bf16, other, rope_stage::post, what, visits);
      EXPECT_EQ(got.size(), what == asked_for::losses ? documents.size() : want.size()) << family;
      for (const auto& [key, values] : got) EXPECT_TRUE(values == want.at(key)) << family << ' ' << std::get<2>(key);
    }
}

}  // namespace qkgeom::test
