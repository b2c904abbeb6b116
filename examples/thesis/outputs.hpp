// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "examples/common/outputs.hpp"
#include "examples/thesis/published.hpp"

namespace qkgeom::examples::thesis {

/// The thesis' tables as the published numbers give them: table_6_1.csv (from the deciles) to table_10.csv, and the
/// note's comparisons of models, generations and predecessors.
void write_tables(output_folder& out, printer& screen, const published& p);

/// associations.csv: each metric with LongBench-Pro, with exact p, intervals and the range as models are left out;
/// families.csv: pooled, within and between families; separation.csv: how far AP_drop tells families apart.
void write_associations(output_folder& out, printer& screen, const published& p, std::uint64_t seed);

/// Figure 6.7, the decile profiles, and bias per token and per context along training and beside AP_drop.
void write_figures(output_folder& out, const published& p);

}  // namespace qkgeom::examples::thesis
