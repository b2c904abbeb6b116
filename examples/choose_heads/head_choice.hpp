// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <string>
#include <vector>

#include "examples/common/outputs.hpp"
#include "qkgeom/sampling/head_draw.hpp"

namespace qkgeom::examples {

/// Rankings of choose_heads, by AP_overall, AP_drop and |bias_context|.
inline constexpr std::array<const char*, 4> ranking_names{"ap_low", "ap_high", "drop_high", "bias_high"};

/// Options of choose_heads.
struct choice_arguments {
  std::vector<std::string> rankings{ranking_names.begin(), ranking_names.end()};
  index_t count = 8;   ///< heads per set
  index_t random = 3;  ///< random sets per chosen set
};

/// ablate: the head's output is zeroed. clamp: its keys lose their drift along a, alpha_K (t - mean t) a. clamp_all:
/// its keys lose their whole slope on t.
enum class intervention { ablate, clamp, clamp_all };
inline constexpr std::array<const char*, 3> intervention_names{"ablate", "clamp", "clamp_all"};

/// A head that may be chosen.
struct candidate {
  head_id head;
  index_t k_head = 0;
  bool rope = true;
  double bias_context = 0;
  std::array<profile_summary, 3> plasticity;         ///< unchanged, clamp, clamp_all
  std::vector<double> clamp_slope, clamp_all_slope;  ///< (d), per token
  double centre = 0;                                 ///< mean position of the keys, tokens
};

/// Heads chosen by one ranking, or random heads with equally many in each layer.
struct head_set {
  std::string ranking;
  index_t random = 0;               ///< 0: the chosen heads; else the number of the random set
  std::vector<std::size_t> member;  ///< indices of candidates
  /// "RANKING/chosen" or "RANKING/random-N".
  std::string name() const { return ranking + (random == 0 ? "/chosen" : "/random-" + std::to_string(random)); }
};

/// Reads every head of the capture under the first query model. Throws `error`, before it reads rows, if there are too
/// few heads for the choice.
std::vector<candidate> read_candidates(const arguments& a, const choice_arguments& choice);

/// For each of `choice.rankings` its first `count` heads, but at most a quarter of each layer's; and `random` sets
/// drawn from the other heads, with equally many in each layer, the same whichever rankings are asked for. Throws
/// `error` if there are too few heads.
std::vector<head_set> choose_heads(const std::vector<candidate>& heads, const choice_arguments& choice,
                                   std::uint64_t seed);

/// Writes conditions.json for qkgeom evaluate, with a condition SET/INTERVENTION for each pair, and chosen_heads.csv.
void write_choice(output_folder& out, const std::vector<candidate>& heads, const std::vector<head_set>& sets);
void print_choice(printer& out, const std::vector<candidate>& heads, const std::vector<head_set>& sets);

}  // namespace qkgeom::examples
