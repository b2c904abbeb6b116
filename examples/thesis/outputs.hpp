// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "examples/common/outputs.hpp"
#include "examples/thesis/published.hpp"

namespace qkgeom::examples::thesis {

/// Writes the tables that tables.csv of the data folder lists: the thesis' tables, recomputed from the published
/// numbers (table_6_1.csv and so on), and the note's comparisons of models, generations and predecessors.
void write_tables(output_folder& out, printer& screen, const published& p, const std::filesystem::path& folder);

/// Writes associations.csv (each metric with LongBench-Pro: exact p, intervals, range with one model left out),
/// families.csv (pooled, within and between families) and separation.csv (how well AP_drop separates families).
void write_associations(output_folder& out, printer& screen, const published& p, std::uint64_t seed);

/// Draws figure 6.7, the decile profiles, and bias per token and per context along training and against AP_drop.
void write_figures(output_folder& out, const published& p);

}  // namespace qkgeom::examples::thesis
