// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <numbers>
#include <optional>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/rotary/rotation_between.hpp"
#include "qkgeom/stats/jackknife.hpp"

namespace qkgeom {

/// Bands of rotary planes by their number of turns, rotations by 2 pi, within the context.
enum class rotary_band { often, about_once, hardly };
inline constexpr rotary_band all_rotary_bands[] = {rotary_band::often, rotary_band::about_once, rotary_band::hardly};

/// Planes with at least this many turns turn often; planes with less than the inverse hardly turn.
inline constexpr double often_turns = 4;
inline constexpr rotary_band band_of(double turns) {
  return turns >= often_turns       ? rotary_band::often
         : turns >= 1 / often_turns ? rotary_band::about_once
                                    : rotary_band::hardly;
}
inline constexpr const char* name_of(rotary_band band) {
  return band == rotary_band::often ? "often" : band == rotary_band::about_once ? "about_once" : "hardly";
}

/// Returns the turns of a plane within a context.
inline double turns_of(double frequency, index_t context_length) {
  return frequency * static_cast<double>(context_length) / (2 * std::numbers::pi);
}

/// The contribution of one plane of the rotary embedding to a head.
struct plane_share {
  double concentration_q = 0, concentration_k = 0;  ///< |mean| over mean length, before the rotation: 0 to 1
  estimate variance;  ///< cov(the plane's score, the score) / var(the score); shares of all planes and rest add up to 1
};

/// Scores q.k of pairs whose key lies in [start, end) tokens before the query.
struct distance_scores {
  index_t start = 0, end = 0;
  double pairs = 0;
  estimate observed;     ///< mean over pairs
  double predicted = 0;  ///< mean over the same pairs of `mean_score`, which uses only the means of q and k
};

/// The planes of a query head with the key head that it reads.
struct head_planes {
  std::vector<plane_share> planes;
  estimate rest;  ///< share of the score variance from coordinates outside all planes
  std::vector<distance_scores> distances;
};

struct plane_options {
  index_t pairs = 2048;  ///< drawn in each document, of a query and an earlier key
  std::uint64_t seed = 0;
  /// Frequencies of the planes in a document of that number, where they differ between documents.
  std::function<std::vector<double>(std::int32_t document)> frequencies{};
};

/// Measures the planes of each query head of a layer, from its rows before the rotary embedding `rope` (empty: a NoPE
/// layer) and their positions. Errors are over documents. Costs O(pairs d) per head and document. Throws `error` if the
/// shapes do not agree or the embedding rotates more coordinates than heads have.
template <context Context, class T>
std::vector<head_planes> planes_of(Context& ctx, const layer_view<T>& before, const std::optional<captured_rope>& rope,
                                   index_t context_length, const plane_options& options = {});

}  // namespace qkgeom

#include "qkgeom/rotary/detail/planes.hpp"
