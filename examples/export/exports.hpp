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
  std::string texts{};          ///< what the documents are called in the file
  index_t sink_tokens = 64;     ///< duo: first tokens that every head keeps: 1, 4 or 64
  index_t recent_tokens = 256;  ///< duo: latest tokens that every head keeps, a power of 2
  double least_turn = 2;  ///< rope-profiler: radians over the context from which a plane counts as of high frequency
  std::function<void(const std::string&)> note{};  ///< takes a sentence on the use of the file
};

/// triattention.pt, as TriAttention's load_head_frequency_stats reads it: per query head with a rotary embedding, means
/// over queries from before it of z_j and of |z_j|, z_j = x + iy being the query in plane j. Also triattention.csv,
/// with errors over documents. Heads in NoPE layers are left out, as that reader turns every key. Throws `error` unless
/// the rows are from before the rotary embedding, which must be one for all layers and turn the whole head.
void export_triattention(output_folder& out, const arguments& a, const export_arguments& choice);

/// Writes tria.bin, version 2 of the calibration that ports of TriAttention to llama.cpp read (TRIA_FORMAT.md of
/// triattention-ggml), little-endian: a header of 64 bytes (magic 0x54524941, version, layers, query heads, key heads,
/// rotary channels, planes as u32; base of the rotary embedding and its attention factor as f32; zeros), a factor of
/// each layer's budget as f32, and per layer and query head four arrays of f32 over planes: q_mean_real, q_mean_imag,
/// q_abs_mean, mrl = |mean of z_j| / mean of |z_j|. A layer's factor is 2 - m over the mean of this over layers, m
/// being the mean mrl of each head's two planes with the longest queries, as in that project's calibration. Writes
/// triattention.csv and origin.json too. Throws `error` unless the rows are from before the rotary embedding, which
/// must have one base, no scaling, and be in every captured layer, and each captured layer has all heads.
void export_tria(output_folder& out, const arguments& a, const export_arguments& choice);

/// Writes rope_profiler.json, as rope-profiler's MonitorConfig.from_dict reads it: the twentieth (rounded up) of the
/// query heads with a rotary embedding whose r_H varies most over documents. r_H is the norm of the score's
/// coefficients |z_q| |z_k| in planes that turn by `least_turn` radians or more over the context, over their norm in
/// all planes; a mean over the document's queries, each with one captured key before it. Writes rope_profiler.csv, with
/// errors over documents, and origin.json too. Throws `error` unless the rows are from before the rotary embedding and
/// of two documents or more.
void export_rope_profiler(output_folder& out, const arguments& a, const export_arguments& choice);

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

/// A kind of file, by its name in command lines.
struct export_format {
  const char* name;
  void (*write)(output_folder&, const arguments&, const export_arguments&);
};
inline constexpr export_format export_formats[]{{"triattention", export_triattention},
                                                {"tria", export_tria},
                                                {"expected-attention", export_expected_attention},
                                                {"duo", export_duo},
                                                {"rope-profiler", export_rope_profiler}};

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

/// Writes origin.json: `provenance_of` and the documents' name, beside files that have no place for them.
inline void write_origin(output_folder& out, const capture_set& source, const export_arguments& choice) {
  json facts{{"documents", choice.texts}};
  for (const auto& [name, fact] : provenance_of(source)) facts[name] = fact;
  write_text(out.table("origin.json"), facts.dump(2) + "\n");
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
