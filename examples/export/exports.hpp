// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "examples/common/cli.hpp"
#include "examples/common/outputs.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/io/capture_set.hpp"

namespace qkgeom::examples {

/// Settings of an export.
struct export_arguments {
  std::string format;                              ///< triattention, expected-attention or duo
  std::string texts{};                             ///< what the documents are called in the file
  index_t sink_tokens = 64;                        ///< duo: first tokens that every head keeps: 1, 4 or 64
  index_t recent_tokens = 256;                     ///< duo: latest tokens that every head keeps, a power of 2
  std::function<void(const std::string&)> note{};  ///< takes a sentence on the use of the file
};

/// triattention.pt, as TriAttention's load_head_frequency_stats reads it: per query head with a rotary embedding, means
/// over queries from before it of z_j and of |z_j|, z_j = x + iy being the query in plane j. Also triattention.csv,
/// with errors over documents. Heads in NoPE layers are left out, as that reader turns every key. Throws `error` unless
/// the rows are from before the rotary embedding, which must be one for all layers and turn the whole head.
void export_triattention(output_folder& out, const arguments& a, const export_arguments& choice);

/// config.json and model.safetensors, as kvpress' ExpectedAttentionStats.from_pretrained reads them: query_mean
/// (layers, heads, d) and query_cov (layers, heads, d, d; n - 1) of queries from before the rotary embedding. Throws
/// `error` unless the captures hold every head of every layer, from before that embedding.
void export_expected_attention(output_folder& out, const arguments& a, const export_arguments& choice);

/// full_attention_heads.tsv and config.json, as DuoAttention's load_attn_pattern reads them: a row per layer, a column
/// per key head, the share of its queries' attention that goes neither to the first `sink_tokens` nor to the last
/// `recent_tokens`; of the query heads that read the key head, the largest. Also duo_heads.csv, with intervals over
/// documents. Throws `error` unless the captures were made with --softmax, hold every head, and have query buckets
/// beyond both stretches.
void export_duo(output_folder& out, const arguments& a, const export_arguments& choice);

/// A value that `write_torch` pickles: what Python's bool, int, float, str, list, dict and torch.Tensor (f32, one
/// dimension) hold.
struct torch_value {
  using list = std::vector<torch_value>;
  using dict = std::vector<std::pair<std::string, torch_value>>;
  std::variant<bool, index_t, double, std::string, std::vector<float>, list, dict> held;
};

/// Writes `value` as torch.save does: a zip of stored entries with a pickle of protocol 2 and the tensors' storage.
/// torch.load reads it, with weights_only too. Throws `error` if the tensors take 4 GB or more.
void write_torch(const std::filesystem::path& path, const torch_value& value);

/// Returns the origin that every exported file states: name and hashes of the model, hash of the documents as tokens,
/// as far as the capture knows them.
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
