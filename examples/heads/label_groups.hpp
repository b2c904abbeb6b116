// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "examples/common/outputs.hpp"
#include "qkgeom/study/comparison_csv.hpp"

namespace qkgeom::examples {

/// The documents that have one value of a label, and all others; numbered as the captures are read.
struct labelled_documents {
  std::string value;             ///< a number as text; empty: the document has no such label
  std::filesystem::path folder;  ///< "LABEL=VALUE" as a file name
  std::vector<index_t> inside, others;
  std::string lack{};        ///< why `inside` cannot be analysed, "no keys in layer 3"; empty: it can
  bool others_lack = false;  ///< whether `others` can be analysed neither
};

/// The values of a label in ascending order. Throws `error` if no document of the captures has the label, all have the
/// same value, or two values would share a folder.
std::vector<labelled_documents> documents_by_label(const std::vector<std::filesystem::path>& captures,
                                                   const std::string& label);

/// What the label says of the model, as a table for a terminal.
void print_groups(printer& out, const std::vector<document_group>& groups);

}  // namespace qkgeom::examples
