// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "qkgeom/context/row_rotation.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/rotary/captured_rope.hpp"

namespace qkgeom {

/// Returns the rotation that replaces embedding `applied` (null: none) at old positions by `wanted` at new ones, with
/// attention factors, for `rotate_rows` of a context. Throws `error` if the two rotate different planes.
inline row_rotation rotation_between(const captured_rope* applied, const captured_rope& wanted) {
  require(!applied || (applied->style == wanted.style && applied->first == wanted.first &&
                       applied->inv_freq.size() == wanted.inv_freq.size()),
          "rotary embeddings of ", applied ? applied->inv_freq.size() : 0, " and ", wanted.inv_freq.size(),
          " planes, or of two styles, do not rotate the same planes");
  row_rotation rotation{.planes = {},
                        .first = wanted.first,
                        .factor = wanted.attention_factor / (applied ? applied->attention_factor : 1)};
  for (std::size_t p = 0; p < wanted.inv_freq.size(); ++p) {
    const auto [first, second] = plane_of(wanted, p);
    rotation.planes.push_back({static_cast<index_t>(first), static_cast<index_t>(second),
                               applied ? applied->inv_freq[p] : 0, wanted.inv_freq[p]});
  }
  return rotation;
}

/// Rotates the planes of vectors (d) and scales them by a factor. Coordinates outside the planes stay.
class vector_rotation {
 public:
  /// Rotates as `rope` does over a number of tokens, which need not be whole, without its attention factor.
  vector_rotation(const captured_rope& rope, double tokens)
      : vector_rotation({.planes = rotation_between(nullptr, rope).planes}, 0, tokens) {}
  /// The rotation of rows from position `at` to position `to`.
  vector_rotation(const row_rotation& rotation, double at, double to) {
    planes_.reserve(rotation.planes.size());
    for (const rotated_plane& p : rotation.planes) {
      const double angle = to * p.to - at * p.from;
      planes_.push_back({p.first, p.second, rotation.factor * std::cos(angle), rotation.factor * std::sin(angle)});
    }
  }

  /// Returns the rotation that replaces `applied` (null: none) at position `at` by `wanted` at position `to`, with
  /// attention factors. Throws `error` if the two rotate different planes.
  static vector_rotation between(const captured_rope* applied, double at, const captured_rope& wanted, double to) {
    return {rotation_between(applied, wanted), at, to};
  }

  template <class X>
  void operator()(X* x) const {
    for (const auto& p : planes_) {
      const double a = static_cast<double>(x[p.first]), b = static_cast<double>(x[p.second]);
      x[p.first] = static_cast<X>(p.cos * a - p.sin * b);
      x[p.second] = static_cast<X>(p.sin * a + p.cos * b);
    }
  }

 private:
  struct plane {
    index_t first, second;
    double cos, sin;
  };

  std::vector<plane> planes_;
};

}  // namespace qkgeom
