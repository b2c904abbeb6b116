// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "examples/common/numbers/comparison.hpp"
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

}  // namespace qkgeom::examples
