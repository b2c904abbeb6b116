// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/geometry/planar_rotation.hpp"

namespace qkgeom {

struct complement_options {
  /// Permutations of the positions per plane and side. A plane is active if it beats all: 99 draws test at 99 %.
  index_t permutations = 99;
  std::uint64_t seed = 0;
};

/// Rotation of one side (queries or keys) with position, in a plane of the complement.
struct plane_rotation {
  double frequency = 0;       ///< omega, radians per token, in (-pi, pi]
  double resultant = 0;       ///< |mean exp(i(angle - omega t))|; 1: the angle is linear in position
  double level = 0;           ///< largest resultant under a permutation
  index_t draws = 0;          ///< permutations drawn, up to the first with a resultant as large
  bool active = false;        ///< resultant > level
  double variance_share = 0;  ///< share of this side's variance in the plane
};

/// Two consecutive principal components of the complement.
struct complement_plane {
  double variance_share = 0;  ///< share of the head's pooled variance
  plane_rotation q, k;        ///< the plane is oriented so that k.frequency >= 0
};

/// The complement of the plane {a, b} (section 4.3.3), in at most (d - 2) / 2 planes.
struct complement_result {
  double variance_share = 0;             ///< share of the pooled variance: 1 - plane_var_fraction
  std::vector<complement_plane> planes;  ///< by descending variance; planes without variance are omitted
};

/// Finds the rotation planes of each head of a layer in the complement of its plane {a, b} (section 4.3.3;
/// docs/mathematics.md, Planar rotation). The planes are consecutive pairs of principal components of the pooled rows
/// projected off a and b. Per plane and side, omega maximises the resultant of the angle atan2(x_{2i+1}, x_{2i}) minus
/// omega t over a grid of frequencies at least twice as fine as 2 pi / T, T the span of positions, and is then refined;
/// permuted positions are treated alike. At omega = 0 the resultant is the same in every order of positions, so the
/// test measures what the best frequency adds to it. `moments` are the layer's, `planes` their `planar_rotation`. Needs
/// rows on the host. Costs O(T log T + n) per plane, side and draw and O(n d^2) per head of n rows; a plane that is not
/// active needs few draws. Throws if the arguments do not fit each other.
template <context Context, class T>
std::vector<complement_result> complement_planes(Context& ctx, const layer_view<T, memory_space::host>& layer,
                                                 const layer_moments& moments,
                                                 const std::vector<rotation_result>& planes,
                                                 const complement_options& options = {});

/// Does the same for one head.
template <context Context, class T>
complement_result complement_planes(Context& ctx, const head_view<T, memory_space::host>& head,
                                    const head_moments& moments, const rotation_result& plane,
                                    const complement_options& options = {}) {
  const layer_moments layer{moments.buckets, {moments.q}, {moments.k}, {0}};
  return std::move(complement_planes(ctx, as_layer(head), layer, {plane}, options).front());
}

}  // namespace qkgeom

#include "qkgeom/geometry/detail/complement.hpp"
