// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/capture_manifest.hpp"

namespace qkgeom {

/// The two coordinates that plane p of a rotary embedding turns: (2p, 2p + 1) if it is interleaved, else (p, p + number
/// of planes).
inline std::pair<std::size_t, std::size_t> plane_of(const captured_rope& rope, std::size_t p) {
  return rope.style == "interleaved" ? std::pair{2 * p, 2 * p + 1} : std::pair{p, p + rope.inv_freq.size()};
}

/// A turn of the planes of vectors (d), and a factor on them. Coordinates beyond the rotary embedding's stay.
class rotary_turn {
 public:
  /// The turn of `rope` by some tokens, which need not be whole, without its attention factor.
  rotary_turn(const captured_rope& rope, double tokens) : rotary_turn(rope) {
    for (std::size_t p = 0; p < rope.inv_freq.size(); ++p) add(tokens * rope.inv_freq[p], 1);
  }

  /// From a vector that `applied` (none: nothing) turned to position `at` to the same vector as `wanted` turns it to
  /// position `to`, attention factors included. Throws `error` if the two turn different planes.
  static rotary_turn between(const captured_rope* applied, double at, const captured_rope& wanted, double to) {
    require(!applied || (applied->style == wanted.style && applied->inv_freq.size() == wanted.inv_freq.size()),
            "rotary embeddings of ", applied ? applied->inv_freq.size() : 0, " and ", wanted.inv_freq.size(),
            " planes, or of two styles, do not turn the same planes");
    rotary_turn turn(wanted);
    const double factor = wanted.attention_factor / (applied ? applied->attention_factor : 1);
    for (std::size_t p = 0; p < wanted.inv_freq.size(); ++p)
      turn.add(to * wanted.inv_freq[p] - (applied ? at * applied->inv_freq[p] : 0), factor);
    return turn;
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
    std::size_t first, second;
    double cos, sin;
  };
  explicit rotary_turn(const captured_rope& rope) : rope_(&rope) { planes_.reserve(rope.inv_freq.size()); }
  void add(double angle, double factor) {
    const auto [first, second] = plane_of(*rope_, planes_.size());
    planes_.push_back({first, second, factor * std::cos(angle), factor * std::sin(angle)});
  }

  const captured_rope* rope_;
  std::vector<plane> planes_;
};

}  // namespace qkgeom
