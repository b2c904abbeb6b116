// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "examples/common/outputs.hpp"
#include "qkgeom/io/what_if.hpp"
#include "qkgeom/rotary/grip.hpp"
#include "qkgeom/rotary/order_stability.hpp"

namespace qkgeom::examples {

/// Options of grip.
struct grip_arguments {
  index_t context = 0;  ///< keys; 0: as captured
  index_t near = 0;     ///< tokens; 0: 512, at most half of the captured context
  index_t queries = 32;
  bool first_compete = false;
  wanted_embedding embedding{};
  std::vector<std::filesystem::path> actual{};  ///< captures of long documents; empty: none
};

/// A prediction held against what was counted, over the heads of a group.
struct grip_check {
  std::string from;  ///< the part that predicts, "1/2", or "actual"
  needle_kind needle = needle_kind::winner;
  index_t top = 1, length = 0;
  std::string group;
  std::size_t heads = 0;
  double actual = NAN, predicted = NAN, miss_rms = NAN, correlation = NAN;
  double in_interval = NAN;  ///< share of heads, of the actual captures alone
};

struct grip_study {
  analysed whole;                                       ///< the capture, with notes on its grip
  grip_options options;                                 ///< of the prediction
  std::vector<head_grip> predicted;                     ///< (heads); errors hold what the capture misses of itself
  std::vector<head_grip> actual;                        ///< (heads); empty: unknown
  std::vector<std::vector<order_stability>> stability;  ///< (heads)
  std::vector<grip_check> checks;
};

/// Predicts grip, reach and stability for the heads of an analysed capture, and adds notes to it. Throws `error` if the
/// capture lacks keys of some tokens, or if its layers weigh channels after the rotation.
grip_study find_grip(const arguments& a, const grip_arguments& choice, analysed whole);
/// Does the same for the captures of `a`, without another analysis.
grip_study find_grip(const arguments& a, const grip_arguments& choice);

/// Make the tables of `write_grip`, which refer to `s`.
qkgeom::table grip_table(const grip_study& s);
qkgeom::table grip_heads_table(const grip_study& s);
qkgeom::table reach_table(const grip_study& s);
qkgeom::table stability_table(const grip_study& s);
qkgeom::table grip_check_table(const grip_study& s);

/// Writes grip.csv, grip_heads.csv, reach.csv, stability.csv, grip_check.csv, and the figures grip_curves, grip_map
/// and, with actual captures, grip_actual.
void write_grip(output_folder& out, const grip_study& found);
/// Prints the model in a few lines, and how well the capture predicts itself.
void print_grip(printer& out, const grip_study& found);

}  // namespace qkgeom::examples
