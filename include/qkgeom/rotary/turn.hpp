// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/context/row_turns.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// Rotary embedding as applied to coordinates [first, first + rotary_dim): `style` is "half" or "interleaved".
struct captured_rope {
  std::string style;
  index_t rotary_dim = 0;
  double attention_factor = 1;
  std::vector<double> inv_freq;
  index_t first = 0;
  bool operator==(const captured_rope&) const = default;
};

/// The two coordinates that plane p of a rotary embedding turns: (2p, 2p + 1) if it is interleaved, else (p, p + number
/// of planes), counted from its first one.
inline std::pair<std::size_t, std::size_t> plane_of(const captured_rope& rope, std::size_t p) {
  const auto first = static_cast<std::size_t>(rope.first);
  return rope.style == "interleaved" ? std::pair{first + 2 * p, first + 2 * p + 1}
                                     : std::pair{first + p, first + p + rope.inv_freq.size()};
}

/// From rows that `applied` (none: nothing) turned at their positions to the same rows as `wanted` turns them at
/// others, attention factors included; for `turn_rows` of a context. Throws `error` if the two turn different planes.
inline row_turns turns_between(const captured_rope* applied, const captured_rope& wanted) {
  require(!applied || (applied->style == wanted.style && applied->first == wanted.first &&
                       applied->inv_freq.size() == wanted.inv_freq.size()),
          "rotary embeddings of ", applied ? applied->inv_freq.size() : 0, " and ", wanted.inv_freq.size(),
          " planes, or of two styles, do not turn the same planes");
  row_turns turns{.planes = {}, .factor = wanted.attention_factor / (applied ? applied->attention_factor : 1)};
  for (std::size_t p = 0; p < wanted.inv_freq.size(); ++p) {
    const auto [first, second] = plane_of(wanted, p);
    turns.planes.push_back({static_cast<index_t>(first), static_cast<index_t>(second),
                            applied ? applied->inv_freq[p] : 0, wanted.inv_freq[p]});
  }
  return turns;
}

/// A turn of the planes of vectors (d), and a factor on them. Coordinates beyond the rotary embedding's stay.
class rotary_turn {
 public:
  /// The turn of `rope` by some tokens, which need not be whole, without its attention factor.
  rotary_turn(const captured_rope& rope, double tokens)
      : rotary_turn(turns_between(nullptr, rope).planes, 1, 0, tokens) {}

  /// From a vector that `applied` (none: nothing) turned to position `at` to the same vector as `wanted` turns it to
  /// position `to`, attention factors included. Throws `error` if the two turn different planes.
  static rotary_turn between(const captured_rope* applied, double at, const captured_rope& wanted, double to) {
    const row_turns turns = turns_between(applied, wanted);
    return {turns.planes, turns.factor, at, to};
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
  rotary_turn(const std::vector<turned_plane>& turns, double factor, double at, double to) {
    planes_.reserve(turns.size());
    for (const turned_plane& p : turns) {
      const double angle = to * p.to - at * p.from;
      planes_.push_back({p.first, p.second, factor * std::cos(angle), factor * std::sin(angle)});
    }
  }

  std::vector<plane> planes_;
};

}  // namespace qkgeom
