// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "examples/common/numbers/head_values.hpp"

namespace qkgeom::examples {

/// a - b; NaN where either is. `paired`: both come from the same documents, and the same one is left out of both at
/// once; else the documents are independent. The heads of both are independent draws.
head_estimate difference_of(const group_number& a, const group_number& b, bool paired);

/// Mean plasticity over a stretch of the context, of the headline query model.
struct compared_bin {
  std::string kind;           ///< quintile, decile, length or tokens
  double start = 0, end = 0;  ///< tokens
  group_number plasticity;
};

/// Means over heads of |r_q|, |r_k| and the share of variance along one principal component.
struct compared_component {
  group_number abs_r_q, abs_r_k, explained_variance;
};

/// A group of a model's heads in numbers.
struct compared_group {
  std::string name;  ///< all, rope, nope
  index_t heads = 0;
  std::vector<group_number> numbers;
  std::vector<compared_bin> bins;
  std::vector<compared_component> components;

  /// Throws `error` if there is no number of that name.
  const group_number& number(const std::string& wanted) const;
};

/// The numbers of a group that differences are made of: the headline, then quintiles and deciles of the model's own
/// context, counted from 1.
std::vector<group_number> numbers_to_compare(const compared_group& g);

/// One head as figures of several models show it.
struct compared_head {
  bool rope = true;
  double r_q_pc0 = 0, r_k_pc0 = 0, bias_strength = 0, bias_context = 0, separation_strength = 0;
  double bias_context_logits = 0;
};

/// A model among others that it is compared with: no profiles, few values of single heads.
struct compared_model {
  std::string label, family;
  index_t context_length = 0;
  index_t bucket_size = 0;  ///< width of the first query bucket, tokens
  std::string rope_stage;   ///< post or pre, the captured rows against the rotary embedding
  std::size_t documents = 0;
  std::vector<std::string> document_ids;  ///< of the captures; empty: not known
  std::vector<compared_group> groups;     ///< all; rope and nope where the model has both
  std::vector<compared_head> heads;
  std::vector<std::int32_t> profile_documents{};  ///< numbers of those that plasticity leaves out
  document_blocks blocks{};                       ///< those that PCA and rotation leave out
  std::vector<report_note> notes{};               ///< the report's
  std::string architecture{};                     ///< the same for models of one config.json; empty: not known
  bool untrained = false;                         ///< the weights are drawn: a baseline of its architecture

  /// The group of that name; null if the model has no such heads.
  const compared_group* group(const std::string& name) const;
};

/// Whether both models come from the same documents and the same rows of them, so that differences are `paired`.
bool same_documents(const compared_model& a, const compared_model& b);

/// Notes differences of models beside their heads: buckets, contexts or documents, a note for each.
std::vector<report_note> notes_of(const std::vector<compared_model>& models);

/// The model that a report is about; the report needs PCA, rotation, plasticity and `geometry_blocks`. `token_edges`:
/// bins of the context in tokens, beside quintiles, deciles and doubling lengths. Throws `error` if the report has no
/// heads or no profiles.
compared_model compare_by(const model_report& report, std::string label, std::string family,
                          std::vector<std::string> document_ids, const std::vector<double>& token_edges);

/// models.csv: a row per model and group of heads with every headline number.
qkgeom::table models_table(const std::vector<compared_model>& models);

}  // namespace qkgeom::examples
