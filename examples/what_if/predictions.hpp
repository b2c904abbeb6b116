// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "examples/common/outputs.hpp"
#include "examples/what_if/extrapolation.hpp"
#include "qkgeom/io/what_if.hpp"
#include "qkgeom/rotary/stationarity.hpp"

namespace qkgeom::examples {

/// Options of what_if.
struct what_if_arguments {
  index_t context = 0;  ///< tokens; 0: as captured
  wanted_embedding embedding{};
  index_t keep_first = 0;
  std::vector<std::filesystem::path> actual{};  ///< captures of the context itself, to compare with; empty: none
};

/// How the rows of a head from before the rotation depend on position.
struct head_stationarity {
  stationarity q, k;
  bool is_doubtful() const { return qkgeom::is_doubtful(q) || qkgeom::is_doubtful(k); }
};

/// The analysis of captures as they are, as they would be, and what tells how far the second can be believed.
struct prediction {
  analysed captured, predicted;
  std::optional<analysed> actual{};  ///< the context as it really is
  double factor = 1;                 ///< of the context
  bool other_embedding = false;
  self_check check;
  self_check against_actual;              ///< misses of `predicted` and of `captured`, where the context is known
  std::vector<head_stationarity> steady;  ///< (heads)
  std::vector<std::array<estimate, carried_numbers.size()>> numbers;
  std::vector<std::string> warnings;

  /// Errors are those of this factor of the context.
  double error_factor() const { return std::max(factor, other_embedding ? factor_of_other_embedding : 1); }
};

prediction predict(const arguments& a, const analysis_options& options, const what_if_arguments& choice);

/// The rows of what_if.csv, self_check.csv and stationarity.csv; they refer to `p`.
qkgeom::table what_if_table(const prediction& p);
qkgeom::table self_check_table(const prediction& p);
qkgeom::table stationarity_table(const prediction& p);

/// Writes what_if.csv, self_check.csv, stationarity.csv, the figures what_if_profile and what_if_heads, and all tables
/// and figures of `heads` in the folders captured and predicted.
void write_prediction(output_folder& out, const prediction& p, const analysis_options& options);
void print_prediction(printer& out, const prediction& p);

}  // namespace qkgeom::examples
