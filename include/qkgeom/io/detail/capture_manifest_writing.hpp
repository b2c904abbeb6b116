// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "qkgeom/io/capture_manifest_text.hpp"

namespace qkgeom {

namespace detail {

using ordered = nlohmann::ordered_json;

inline ordered to_ordered(const captured_rope& r) {
  ordered j = {{"style", r.style}, {"rotary_dim", r.rotary_dim}};
  if (r.first > 0) j["first"] = r.first;
  j["attention_factor"] = r.attention_factor;
  j["inv_freq"] = r.inv_freq;
  return j;
}

inline ordered to_ordered(const captured_layer_info& l) {
  ordered j = {{"layer", l.layer}, {"rope", l.rope}};
  j["window"] = l.window ? ordered(*l.window) : ordered(nullptr);
  j["query_heads"] = l.query_heads;
  j["key_heads"] = l.key_heads;
  if (l.rope_parameters) j["rope_parameters"] = to_ordered(*l.rope_parameters);
  return j;
}

inline ordered to_ordered(const captured_document& e) {
  ordered j = {{"index", e.index}, {"id", e.id}, {"tokens", e.tokens}};
  if (!e.labels.is_null()) j["labels"] = e.labels;
  return j;
}

inline ordered to_ordered(const captured_shard& s) {
  ordered j = {{"file", s.file}, {"examples", s.documents}, {"rows", s.rows}};
  if (!s.sha256.empty()) j["sha256"] = s.sha256;
  return j;
}

template <class T>
ordered to_ordered_list(const std::vector<T>& list) {
  ordered j = ordered::array();
  for (const auto& entry : list) j.push_back(to_ordered(entry));
  return j;
}

}  // namespace detail

QKGEOM_INLINE std::string manifest_text(const capture_manifest& m, int indent) {
  using detail::to_ordered, detail::to_ordered_list;
  detail::ordered j = {{"format", "qkgeom-capture"}, {"version", 1}};
  j["model"] = {{"name", m.model.name},
                {"model_type", m.model.model_type},
                {"config_sha256", m.model.config_sha256},
                {"head_dim", m.model.head_dim},
                {"n_layers", m.model.n_layers},
                {"n_query_heads", m.model.n_query_heads},
                {"n_key_heads", m.model.n_key_heads}};
  j["context_length"] = m.context_length;
  j["bucket"] = {{"kind", m.bucket.kind}, {"size", m.bucket.size}};
  j["rate"] = m.rate;
  j["rope_stage"] = m.rope_stage;
  j["seed"] = m.seed;
  if (m.documents) j["examples"] = to_ordered_list(*m.documents);
  if (m.revision) j["revision"] = *m.revision;
  if (m.compute_dtype) j["compute_dtype"] = *m.compute_dtype;
  if (m.family) j["family"] = *m.family;
  if (m.rope) j["rope"] = to_ordered(*m.rope);
  if (m.score_scale) j["score_scale"] = *m.score_scale;
  if (m.score_softcap) j["score_softcap"] = *m.score_softcap;
  j["layers"] = to_ordered_list(m.layers);
  if (!m.shards.empty()) j["shards"] = to_ordered_list(m.shards);
  if (!m.written_by.empty()) j["written_by"] = m.written_by;
  for (const auto& [name, value] : m.extra.items()) j[name] = value;
  try {
    return j.dump(indent);
  } catch (const json::exception&) {
    fail("a manifest cannot be written: a name or an id in it is not UTF-8");
  }
}

}  // namespace qkgeom
