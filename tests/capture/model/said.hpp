// SPDX-License-Identifier: MIT
#pragma once

#include "capture/job/plan.hpp"
#include "qkgeom/io/json.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom::test {

/// What a description says, by name; lists have an entry for each layer.
inline json said(const decoder_description& d) {
  const auto by_layer = [&](const auto& value) {
    json list = json::array();
    for (const auto& l : d.layers) list.push_back(static_cast<index_t>(value(l)));
    return list;
  };
  json all{{"model_type", d.model_type},
           {"hidden", d.hidden},
           {"feed_forward", d.feed_forward},
           {"key_heads", d.key_heads},
           {"head_dim", d.head_dim},
           {"widest_head", d.widest_head()},
           {"widest_keys", d.widest_keys()},
           {"n_layers", d.n_layers()},
           {"context", d.context},
           {"norm_eps", d.norm_eps},
           {"tied", d.tied},
           {"biases", {d.qkv_bias, d.output_bias, d.feed_forward_bias}},
           {"sinks", d.sinks},
           {"norms_after_rotation", d.qk == qk_norm::each_rotated_head},
           {"gated_output", d.gated_output},
           {"score_cap", d.score_cap},
           {"planned_softcap", nullptr},
           {"logit_cap", d.logit_cap},
           {"logit_scale", d.logit_scale},
           {"theta", d.rope.theta},
           {"rope", d.rope.type},
           {"act", std::array{"silu", "gelu", "gelu_tanh"}[static_cast<std::size_t>(d.act)]},
           {"rotary_dim", d.rope.rotary_dim},
           {"rotary_first", d.rope.first},
           {"interleaved", d.rope.interleaved},
           {"attention_factor", d.rope.attention_factor},
           {"dynamic", nullptr},
           {"grows_from", nullptr},
           {"captured", choose_layers(d, {.include_windowed = true})},
           {"windows", by_layer([](const auto& l) { return l.window.value_or(0); })},
           {"chunks", by_layer([](const auto& l) { return l.chunk.value_or(0); })},
           {"rotates", by_layer([](const auto& l) { return l.rope; })},
           {"deltas", by_layer([](const auto& l) { return l.delta; })},
           {"indexers", by_layer([](const auto& l) { return l.indexer; })},
           {"experts", by_layer([](const auto& l) { return l.experts; })},
           {"values_of_keys", by_layer([](const auto& l) { return l.values_of_keys; })},
           {"key_heads_by_layer", by_layer([&](const auto& l) { return d.heads_of(l).key_heads; })},
           {"head_dims", by_layer([&](const auto& l) { return d.heads_of(l).head_dim; })}};
  if (const auto cap = plan_capture(d, "m", "", {.include_windowed = true}).score_softcap)
    all["planned_softcap"] = *cap;
  if (d.rope.dynamic) all["dynamic"] = d.rope.dynamic->factor;
  if (d.growth) all.update({{"grows_from", d.growth->context}, {"growth", d.growth->beta}});
  if (d.score_scale) all["score_scale"] = *d.score_scale;
  if (d.indexer) all["indexer"] = {d.indexer->heads, d.indexer->dim, d.indexer->chosen};
  if (const auto& l = d.latent)
    all.update({{"query_rank", l->query_rank}, {"plain", l->plain}, {"value_dim", l->value_dim}, {"pairs", l->pairs}});
  if (d.delta) all["delta_channels"] = d.delta->channels();
  if (const auto& local = d.local_rope)
    all.update({{"local_rope", local->type}, {"local_theta", local->theta}, {"local_exact_table", local->exact_table}});
  if (const auto& e = d.experts)
    all.update({{"expert_count", e->count},
                {"expert_width", e->width},
                {"shared_width", e->shared_width},
                {"normalised", e->normalised},
                {"chosen", e->chosen},
                {"expert_scale", e->scale},
                {"limit", e->limit},
                {"groups", e->groups},
                {"chosen_groups", e->chosen_groups}});
  return all;
}

/// Expects that a description says what a line of a table has, by the names of `said` (lists that are shorter than the
/// layers begin again), and has its `frequencies` and `local_frequencies`, each a number and a value.
inline void expect_said(const decoder_description& d, const json& line) {
  const json found = said(d);
  for (const auto& [name, expected] : line[2].items()) {
    json value = expected;
    if (name.ends_with("frequencies")) {
      const auto& rope = name == "frequencies" ? d.rope : *d.local_rope;
      for (const auto& [number, f] : value.get<std::vector<std::pair<std::size_t, double>>>())
        EXPECT_NEAR(rope.inv_freq.at(number), f, 1e-6 * f) << number << " of " << line;
      continue;
    }
    ASSERT_TRUE(found.contains(name)) << name << " of " << line;
    if (value.is_array() && name != "captured")
      for (std::size_t i = 0; value.size() < found[name].size(); ++i) value.push_back(json(value[i]));
    EXPECT_EQ(found[name], value) << name << " of " << line;
  }
}

}  // namespace qkgeom::test
