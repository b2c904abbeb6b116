// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "examples/common/outputs.hpp"

namespace qkgeom::examples {

/// Writes the tables that need a second pass over the rows or a slower kernel: fits.csv, gaps.csv, complement.csv,
/// decay.csv, decay_profile.csv, bucket_table.csv, components.csv, later_keys.csv; draws decay and later_keys. Returns
/// one sentence for each subject, over all heads. The report must hold `components`.
std::vector<std::string> write_details(output_folder& out, const analysed& a, const arguments& choice);

}  // namespace qkgeom::examples
