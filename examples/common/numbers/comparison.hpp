// SPDX-License-Identifier: MIT
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "qkgeom/report/head_groups.hpp"
#include "examples/common/numbers/head_regions.hpp"
#include "examples/common/numbers/trajectory.hpp"

namespace qkgeom {

/// A number of a group of heads, with its values without each document (or block of them), so that differences from
/// other numbers have errors too.
struct compared_number {
  std::string name;
  double value = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> without;  ///< (documents or blocks), NaN: it changes nothing; empty: no error is known
  double head_error = std::numeric_limits<double>::quiet_NaN();

  head_estimate estimate() const {
    head_estimate e{value};
    e.head_error = head_error;
    e.set_error(jackknife(value, without));
    return e;
  }
};

/// a - b; NaN where either is. `paired`: both come from the same documents, and the same one is left out of both at
/// once; else the documents are independent. The heads of both are independent draws.
QKGEOM_INLINE head_estimate difference_of(const compared_number& a, const compared_number& b, bool paired);

/// A column of heads.csv that summarises a model, its statistic over heads, and the name of that in tables.
struct headline_column {
  std::string name, column;
  head_statistic statistic;
};
QKGEOM_INLINE const std::vector<headline_column>& headline_columns();

/// The headline numbers of a group of heads: `headline_columns`, the share of heads with a positive bias, and the
/// shares of the head classes.
QKGEOM_INLINE std::vector<compared_number> headline_numbers(const trajectory_point& point,
                                                            const std::vector<std::size_t>& heads);

/// Mean plasticity over a stretch of the context, of the headline query model.
struct compared_bin {
  std::string kind;           ///< quintile, decile, length or tokens
  double start = 0, end = 0;  ///< tokens
  compared_number plasticity;
};

/// Means over heads of |r_q|, |r_k| and the share of variance along one principal component.
struct compared_component {
  compared_number abs_r_q, abs_r_k, explained_variance;
};

/// A group of a model's heads in numbers.
struct compared_group {
  std::string name;  ///< all, rope, nope
  index_t heads = 0;
  std::vector<compared_number> numbers;
  std::vector<compared_bin> bins;
  std::vector<compared_component> components;

  /// Throws `error` if there is no number of that name.
  const compared_number& number(const std::string& wanted) const {
    for (const auto& n : numbers)
      if (n.name == wanted) return n;
    fail("there is no number called ", wanted, " to compare models by");
  }
};

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
  const compared_group* group(const std::string& name) const {
    for (const auto& g : groups)
      if (g.name == name) return &g;
    return nullptr;
  }
};

/// Whether both models come from the same documents and the same rows of them, so that differences are `paired`.
inline bool same_documents(const compared_model& a, const compared_model& b) {
  return !a.document_ids.empty() && a.document_ids == b.document_ids && a.profile_documents == b.profile_documents &&
         a.blocks == b.blocks;
}

/// What sets models apart beside their heads: buckets, contexts or documents that differ, a note for each.
QKGEOM_INLINE std::vector<report_note> notes_of(const std::vector<compared_model>& models);

/// The model that a report is about; the report needs PCA, rotation, plasticity and `geometry_blocks`. `token_edges`:
/// bins of the context in tokens, beside quintiles, deciles and doubling lengths. Throws `error` if the report has no
/// heads or no profiles.
QKGEOM_INLINE compared_model compare_by(const model_report& report, std::string label, std::string family,
                                        std::vector<std::string> document_ids, const std::vector<double>& token_edges);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "examples/common/numbers/comparison.hpp"
#endif
