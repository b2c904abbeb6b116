// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "qkgeom/io/capture_set.hpp"

namespace qkgeom::examples {

/// What every exported file says about where its numbers come from: name and hashes of the model, hash of the documents
/// as tokens; those that the capture knows.
inline std::vector<std::pair<std::string, std::string>> provenance_of(const capture_set& source) {
  const auto& m = source.manifest();
  std::vector<std::pair<std::string, std::string>> facts{
      {"written_by", "qkgeom"}, {"model", m.model.name}, {"model_config_sha256", m.model.config_sha256}};
  for (const auto& [field, name] :
       {std::pair{"weights_sha256", "model_weights_sha256"}, std::pair{"inputs_sha256", "documents_sha256"}})
    if (const auto at = m.extra.find(field); at != m.extra.end() && at->is_string())
      facts.emplace_back(name, at->get<std::string>());
  return facts;
}

/// Throws `error` unless the rows are from before the rotary embedding.
inline void require_before_rope(const capture_set& source) {
  require(source.manifest().rope_stage == "pre", source.captures()[0].path().string(),
          " holds queries from after the rotary embedding; this file needs those from before it (qkgeom capture "
          "--pre-rope)");
  for (const auto& l : source.manifest().layers)
    require(!l.norm, source.captures()[0].path().string(), ": layer ", l.layer,
            " norms queries and keys after the rotary embedding, which readers of this file do not");
}

/// Throws `error` unless every head of every layer was captured.
inline void require_every_head(const capture_set& source) {
  const auto& m = source.manifest();
  for (index_t l = 0; l < m.model.n_layers; ++l) {
    const index_t at = m.find_layer(l);
    require(at >= 0 && static_cast<index_t>(m.layers[at].query_heads.size()) == m.model.n_query_heads,
            source.captures()[0].path().string(), ": this file holds every head of every layer, but layer ", l,
            at < 0 ? " is not in the capture (qkgeom capture --include-windowed)" : " was captured in part");
  }
}

/// Leading tokens of a document that the capture leaves out of its statistics.
inline index_t skipped_tokens(const capture_set& source) {
  const auto at = source.manifest().extra.find("skip_first");
  return at != source.manifest().extra.end() && at->is_number_integer() ? at->get<index_t>() : 0;
}

}  // namespace qkgeom::examples
