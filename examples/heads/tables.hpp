// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/numbers/comparison.hpp"
#include "examples/common/numbers/head_values.hpp"
#include "examples/common/outputs.hpp"

namespace qkgeom::examples {

/// The documents with one value of a label, and all others, as indices in the order of the captures.
struct labelled_documents {
  std::string value;             ///< as text; empty: documents without this label
  std::filesystem::path folder;  ///< "LABEL=VALUE" as a file name
  std::vector<index_t> inside, others;
  std::string missing{};           ///< why `inside` cannot be analysed, "no keys in layer 3"; empty: it can
  bool others_incomplete = false;  ///< `others` cannot be analysed
};

/// Groups by value, in ascending order. Throws `error` if no document has the label, all have the same value, or two
/// values would share a folder.
std::vector<labelled_documents> documents_by_label(const std::vector<std::filesystem::path>& captures,
                                                   const std::string& label);

/// The numbers of the documents with one value of a label, and of all others.
struct document_group {
  std::string label, value;
  compared_model inside;
  std::vector<compared_group> outside;  ///< of all other documents; empty: there are none
};

/// groups.csv: a row per value of a label and group of heads, with every headline number of these documents and how
/// much it is above that of all other documents; these are independent.
qkgeom::table groups_table(const std::vector<document_group>& groups);

/// Prints plasticity and bias of each label group, and their differences from the other documents.
void print_groups(printer& out, const std::vector<document_group>& groups);

/// How alike the profiles of two heads of a layer are, by whether they share a key head: means over pairs of heads.
struct shared_key_likeness {
  std::string group;
  index_t pairs_within = 0, pairs_between = 0;
  /// Pearson correlation of two profiles over the query buckets: of heads that share a key head, of heads that do not,
  /// and the former less the latter.
  head_estimate correlation_within, correlation_between, correlation_difference;
  /// The same of the mean |difference| of two profiles.
  head_estimate distance_within, distance_between, distance_difference;
};

/// All heads, then those of RoPE and of NoPE layers apart where the model has both; a mean without pairs is NaN.
std::vector<shared_key_likeness> shared_keys_of(const model_report& report);

/// key_groups.csv: a row per group of heads.
qkgeom::table shared_keys_table(const std::vector<shared_key_likeness>& results);

/// The same captures as if their context ended at each of `lengths` tokens, and whole: query buckets keep their share
/// of the context. One model per length, by rising length. Throws `error` if a length lies outside of the context.
std::vector<compared_model> analyse_contexts(const arguments& a, const analysis_options& options,
                                             std::vector<index_t> lengths);

/// Writes contexts.csv, in the columns of models.csv, and the figure contexts.
void write_contexts(output_folder& out, const std::vector<compared_model>& contexts);
/// Prints head classes, bias and plasticity by length.
void print_contexts(printer& out, const std::vector<compared_model>& contexts);

/// Writes the tables that need a second pass over the rows or a slower kernel: fits.csv, gaps.csv, complement.csv,
/// decay.csv, decay_profile.csv, bucket_table.csv, components.csv, later_keys.csv; draws decay and later_keys. Returns
/// one sentence for each subject, over all heads. The report must hold `components`.
std::vector<std::string> write_details(output_folder& out, const analysed& a, const arguments& choice);

}  // namespace qkgeom::examples
