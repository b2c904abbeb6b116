// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "examples/common/numbers/causes.hpp"
#include "examples/common/outputs.hpp"
#include "qkgeom/io/what_if.hpp"
#include "qkgeom/rotary/planes.hpp"

namespace qkgeom::examples {

/// Options of bands.
struct band_arguments {
  index_t context = 0;  ///< tokens; 0: as captured
  index_t keep_first = kept_first_tokens;
  bool each_plane = false;
  bool conditions = false;
  index_t random = 3;  ///< sets of random planes beside each set
  plane_options scores{};
};

/// The rotary planes of a head and what they do to its scores.
struct planes_of_head {
  std::vector<double> frequency;  ///< (planes) radians per token; empty: a NoPE layer
  double score_scale = 1;         ///< logits of a unit of q.k
  head_planes planes;
};

/// Profiles of every head with one plane held still.
struct still_plane {
  std::size_t plane = 0;
  model_report report;
};

struct band_study {
  covariance_kind covariance = covariance_kind::joint;
  analysed whole;                      ///< with every plane turning
  std::vector<planes_of_head> heads;   ///< of the report
  std::vector<trajectory_point> with;  ///< by set of turning bands, bit b being band b
  std::vector<still_plane> still;      ///< empty without --each-plane
};

band_study find_bands(const arguments& a, const band_arguments& choice);

/// The rows of planes.csv, score_by_distance.csv and band_drops.csv; they refer to `found`.
qkgeom::table planes_table(const band_study& found);
qkgeom::table scores_table(const band_study& found);
qkgeom::table drops_table(const band_study& found);

/// Writes planes.csv, score_by_distance.csv, band_drops.csv, the figures band_drops, plane_shares and
/// mean_scores; with profiles of still planes plane_profiles.csv too.
void write_bands(output_folder& out, const band_study& found);
void print_bands(printer& out, const band_study& found);

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
