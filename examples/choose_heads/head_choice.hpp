// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <string>
#include <vector>

#include "examples/common/outputs.hpp"
#include "qkgeom/sampling/heads.hpp"

namespace qkgeom::examples {

/// What choose_heads alone is told.
struct choice_arguments {
  index_t count = 8;   ///< heads in a set
  index_t random = 3;  ///< random sets beside each chosen one
};

/// What is done to the heads of a set: their output is zeroed; their keys lose the drift along a, alpha_K (t - mean t)
/// a; or all of their slope.
enum class intervention { ablate, clamp, clamp_all };
inline constexpr std::array<const char*, 3> intervention_names{"ablate", "clamp", "clamp_all"};

/// A head as the choice sees it.
struct candidate {
  head_id head;
  index_t k_head = 0;
  bool rope = true;
  double bias_context = 0;
  std::array<profile_summary, 3> plasticity;         ///< as it is, and with its keys clamped in both ways
  std::vector<double> clamp_slope, clamp_all_slope;  ///< (d) a token
  double centre = 0;                                 ///< mean position of the keys, tokens
};

/// Heads chosen for one reason, or at random with as many in each layer.
struct head_set {
  std::string ranking;
  index_t random = 0;               ///< 0: chosen; else the number of the random set
  std::vector<std::size_t> member;  ///< of the candidates
  /// "RANKING/chosen" or "RANKING/random-N".
  std::string name() const { return ranking + (random == 0 ? "/chosen" : "/random-" + std::to_string(random)); }
};

/// Every head of the capture under its first query model. Throws `error`, before it looks at any, if the capture has
/// too few for the choice.
std::vector<candidate> read_candidates(const arguments& a, const choice_arguments& choice);

/// For each of ap_low, ap_high, drop_high and bias_high the `count` heads nearest that end of AP_overall, AP_drop and
/// |bias per context|, but at most a quarter of a layer's, so that other heads of the layer are left; and `random` sets
/// drawn from these, with as many in each layer. Throws `error` if there are too few heads.
std::vector<head_set> choose_heads(const std::vector<candidate>& heads, const choice_arguments& choice,
                                   std::uint64_t seed);

/// conditions.json for qkgeom-evaluate, a condition SET/INTERVENTION for each, and chosen_heads.csv.
void write_choice(output_folder& out, const std::vector<candidate>& heads, const std::vector<head_set>& sets);
void print_choice(printer& out, const std::vector<candidate>& heads, const std::vector<head_set>& sets);

}  // namespace qkgeom::examples
