// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "examples/bands/rotary_bands.hpp"

namespace qkgeom::examples {

/// Planes of the rotary embedding that do not rotate in a condition of qkgeom evaluate, and what is predicted then.
struct plane_set {
  std::string name;                   ///< RANKING/chosen/still or RANKING/random-N/still
  std::vector<double> still;          ///< frequencies, radians per token
  std::vector<head_estimate> change;  ///< of each of `plane_set_numbers`, mean over RoPE heads
};

/// Names and meanings of the predicted numbers.
inline constexpr std::pair<const char*, const char*> plane_set_numbers[] = {
    {"ap_drop", "AP_drop"},
    {"winner_8", "grip of the top 8 among the keys of the context, winner needles"},
    {"matched_8", "the same for matched needles"},
    {"reach", "reach, tokens"}};

/// Holds still the planes of each band, the slowest 1, 2, 4, ... planes, beside each of these `choice.random` times as
/// many random planes, and with `choice.each_plane` every plane alone ("plane P"). Predicts AP_drop, grip and reach of
/// the RoPE heads as the rows of the captures are; that later layers see other rows is left out. Throws `error` if the
/// captures lack keys of some tokens or if the embedding depends on the documents' lengths.
std::vector<plane_set> find_plane_sets(const arguments& a, const band_arguments& choice, const band_study& found);

/// Writes plane_sets.csv, and conditions.json for qkgeom evaluate, with a condition for each set.
void write_plane_sets(output_folder& out, const band_study& found, const std::vector<plane_set>& sets);

}  // namespace qkgeom::examples
