// SPDX-License-Identifier: MIT
#pragma once

#include "examples/common/outputs.hpp"

namespace qkgeom::examples {

/// Writes the tables that need a second pass over the rows or a slower kernel: fits.csv, gaps.csv, complement.csv,
/// decay.csv, decay_profile.csv, bucket_table.csv, components.csv, later_keys.csv. The report must hold `components`.
void write_details(output_folder& out, const analysed& a, const arguments& choice);

}  // namespace qkgeom::examples
