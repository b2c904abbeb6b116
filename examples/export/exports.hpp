// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "examples/common/arguments.hpp"
#include "examples/common/outputs.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom::examples {

/// Settings of an export.
struct export_arguments {
  std::string format;           ///< triattention, expected-attention or duo
  std::string texts{};          ///< what the documents are called in the file
  index_t sink_tokens = 64;     ///< duo: first tokens that every head keeps: 1, 4 or 64
  index_t recent_tokens = 256;  ///< duo: latest tokens that every head keeps, a power of 2
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

}  // namespace qkgeom::examples
