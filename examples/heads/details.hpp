// SPDX-License-Identifier: MIT
#pragma once

#include "examples/common/outputs.hpp"

namespace qkgeom::examples {

/// The tables that need each layer's rows once more, or a slower kernel: fits.csv and gaps.csv, complement.csv,
/// decay.csv and decay_profile.csv, bucket_table.csv, components.csv and later_keys.csv. The report must have been made
/// with `components`.
void write_details(output_folder& out, const analysed& a, const arguments& choice);

}  // namespace qkgeom::examples
