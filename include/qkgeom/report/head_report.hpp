// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/plasticity/summary.hpp"
#include "qkgeom/report/geometry_errors.hpp"
#include "qkgeom/sampling/head_draw.hpp"

namespace qkgeom {

/// Weights of pairs of keys in profiles: equal; equal for each document in all; or as Definition 4.3 draws them
/// (`prefix_uniform`).
enum class pair_weighting { pairs, documents, prefix_uniform };

/// Options of the analyses and which of them run. Defaults are the thesis' choices.
struct analysis_options {
  index_t bucket_size = 0;              ///< query buckets, tokens; 0: the capture's, or a sixteenth of the context
  std::vector<index_t> bucket_edges{};  ///< query buckets by edges instead, tokens
  bool geometry = true;                 ///< run PCA and rotation
  bool plasticity = true;               ///< run profiles under every model of `covariances`; the first is the headline
  std::vector<covariance_kind> covariances{covariance_kind::diagonal, covariance_kind::joint};
  bool empirical = true;          ///< profile of the observed queries too, to compare with the models
  bool heatmap = true;            ///< heatmap of the headline model
  index_t heatmap_cell = 0;       ///< tokens; 0: the width of the first query bucket
  bool across_documents = false;  ///< pairs of keys of different documents too
  index_t sampled_pairs = 0;      ///< pairs drawn per query bucket and shard; 0: all pairs
  pair_weighting weighting = pair_weighting::pairs;  ///< for the query models' profiles; drawn pairs count the same
  query_position position = query_position::middle;
  /// Arithmetic of pairs; by default f64 for f64 keys and in layers where f32 loses digits (docs/numerics.md), else
  /// f32. Drawn pairs are f64.
  std::optional<pair_precision> precision{};
  bool no_drift = false;  ///< query models without the drift term beta_pos tau
  pca_options pca{};
  rotation_options rotation{};   ///< with the capture's context if its context_length is 0
  bool components = false;       ///< terms of the headline profile too, by a slower kernel
  bool every_token = true;       ///< use moments of every token if the captures hold them, else of the rows
  index_t geometry_blocks = 0;   ///< PCA and rotation also without each of at most this many blocks of documents
  std::uint64_t seed = 0;        ///< seed of drawn pairs and of the observed queries
  std::vector<head_id> heads{};  ///< query heads to analyse; empty: all

  bool wants_layer(index_t layer) const {
    return heads.empty() || std::any_of(heads.begin(), heads.end(), [=](head_id h) { return h.layer == layer; });
  }
  bool wants_head(head_id head) const {
    return heads.empty() || std::find(heads.begin(), heads.end(), head) != heads.end();
  }
};

/// Results of all analyses of one query head.
struct head_report {
  index_t layer = 0, q_head = 0, k_head = 0;
  bool rope = true;                 ///< false: NoPE layer
  std::optional<index_t> window{};  ///< tokens
  index_t queries = 0, keys = 0;    ///< rows
  pca_result pca;                   ///< without `components`, which are d^2 numbers per head
  rotation_result rotation;
  geometry_replicates geometry{};  ///< both without each block of documents, with `geometry_blocks`
  double alpha_pos = 0, beta_pos = 0, sigma2_pos = 0, r2_pos = 0;  ///< of the headline query model
  std::vector<plasticity_profile_result> profiles;                 ///< one per covariance of the options
  std::vector<profile_summary> summaries;                          ///< of `profiles`
  std::optional<plasticity_profile_result> empirical{};            ///< plug-in form
  std::optional<profile_summary> empirical_summary{}, empirical_unbiased{};
};

/// A remark on a capture or its analysis that a reader of the numbers must know.
struct report_note {
  std::string name;   ///< kind, e.g. "few_documents"
  std::string text;   ///< one sentence
  std::string brief;  ///< a few words for the line below a figure's title; empty: no such line
  bool operator==(const report_note&) const = default;
};

/// All heads of a capture.
struct model_report {
  std::string model;
  index_t context_length = 0;
  qkgeom::bucket_edges buckets;
  std::vector<head_report> heads;   ///< by layer, then query head
  index_t moment_tokens = 0;        ///< queries of a head in its moments of every token; 0: moments are of the rows
  std::string rope_stage = "post";  ///< "post" or "pre": rows after or before the rotary embedding
  pair_weighting weighting = pair_weighting::pairs;  ///< of the profiles
  std::vector<report_note> notes{};
};

/// A layer and its heads by their numbers in the model.
struct layer_names {
  index_t layer = 0;
  bool rope = true;
  std::vector<index_t> query_heads, key_heads;
};

}  // namespace qkgeom
