// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "qkgeom/context/row_rotation.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Rotates rows to the positions of a table, which need not be whole, from before the rotary embedding.
struct table_rotation {
  const rotated_plane* planes;
  index_t n_planes, first;  ///< they cover the coordinates [first, first + 2 n_planes)
  const double* cos_sin;    ///< (positions, n_planes, 2)

  QKGEOM_HD index_t slots(index_t d) const { return d - n_planes; }
  /// Rotates one plane of x into y, for position number `to`, or copies one coordinate outside all planes.
  template <class T>
  QKGEOM_HD void operator()(index_t to, index_t slot, const T* x, float* y) const {
    if (slot >= n_planes) {
      const index_t outside = slot - n_planes, c = outside < first ? outside : outside + 2 * n_planes;
      y[c] = static_cast<float>(x[c]);
      return;
    }
    const rotated_plane p = planes[slot];
    const double* const at = cos_sin + 2 * (to * n_planes + slot);
    const double a = static_cast<float>(x[p.first]), b = static_cast<float>(x[p.second]);
    y[p.first] = static_cast<float>(at[0] * a - at[1] * b);
    y[p.second] = static_cast<float>(at[1] * a + at[0] * b);
  }
};

/// The positions that documents share.
struct needle_plan {
  row_rotation rotation{};
  std::vector<double> cos_sin{};  ///< (positions, planes, 2)
  index_t positions = 0;

  index_t near = 0, nearest = 0;   ///< a winner is among the `near` nearest keys, less the `nearest`
  index_t first = 0;               ///< first tokens of a document, no far keys
  index_t own = 0;                 ///< number of token 0's position; those of others follow
  std::vector<double> weight{};    ///< (shells) number of far keys; of 0: nothing is counted
  index_t far = 0, far_keys = 0;   ///< number of (shells, far_keys), seen from position 0
  std::optional<index_t> sinks{};  ///< number of (shells, first), where the first tokens compete

  /// Adds a position; returns its number.
  index_t add(double position) {
    for (const rotated_plane& p : rotation.planes) {
      cos_sin.push_back(rotation.factor * std::cos(position * p.to));
      cos_sin.push_back(rotation.factor * std::sin(position * p.to));
    }
    return positions++;
  }
};

/// A key that a query has found, whose score is held against those of others.
struct needle {
  index_t query = 0;   ///< number of the query; needles of a query follow one another
  index_t key = -1;    ///< position; -1: the winner's
  index_t moved = -1;  ///< number of the position to which it is rotated, seen from 0; -1: it stays
  index_t most = 0;    ///< far keys are looked at if at most so many of the nearest are above
  index_t slot = 0;    ///< the caller's
};

/// A document with its queries, which stand behind `near` keys or more, and their needles.
struct needle_document {
  index_t begin = 0, tokens = 0;     ///< its keys in the layer
  std::vector<index_t> row{}, at{};  ///< (queries) rows in the layer; positions
  std::vector<index_t> windows{};    ///< numbers of nearest keys that compete, one or more
  std::vector<needle> needles{};
};

/// Scores on both sides of a threshold.
inline constexpr float no_score = -1e30f;  ///< is below all scores
struct split_scores {
  float count = 0;                            ///< number above the threshold
  float above = -no_score, below = no_score;  ///< the least score above it, the largest other one
  float square = 0;                           ///< sum of the squared shares
};

/// The largest score, and the number of scores above `start` (mean + 1.5 standard deviations), with the sum of their
/// excesses over it and of these squared.
struct score_excess {
  float top = no_score;
  double start = 0, count = 0, sum = 0, square = 0;
};

/// The far keys of a shell about a needle. The share of a key is the sum of the weights of the shells, up to this one,
/// in which it is above; the needle's own key counts in all but the sum of squares.
struct far_split {
  split_scores scores{};
  float own = 0;      ///< score of the needle's own key
  index_t first = 0;  ///< first tokens above
};

/// The scores of a document for one query head.
struct needle_scores {
  std::vector<float> score{};          ///< (needles)
  std::vector<index_t> near{};         ///< (needles, windows + 1) other keys above, at last of the first tokens
  std::vector<far_split> far{};        ///< (needles, shells); without meaning where no far key is looked at
  std::vector<score_excess> excess{};  ///< (shells, queries) of the far keys
};

/// Takes the scores of a document by its number and that of the query head, in any order and from several threads.
using needle_sink = std::function<void(index_t document, index_t head, const needle_scores&)>;

}  // namespace qkgeom
