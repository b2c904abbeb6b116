// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/scalar.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Growth of queries in some families (Ministral 3, Llama 4): a factor 1 + beta ln(1 + floor(position / context)).
struct query_growth {
  double beta = 0;
  index_t context = 1;  ///< tokens
  index_t first = 0;    ///< number of a document's first position

  QKGEOM_HD double at(index_t position) const {
    return beta == 0 ? 1 : 1 + beta * std::log(1 + static_cast<double>((position + first) / context));
  }
};

/// A plane of two coordinates, rotated by the angle new position * `to` - old position * `from`; rad per token.
struct rotated_plane {
  index_t first, second;
  double from, to;
};

/// The rotation that takes rows from their old positions to new ones.
struct row_rotation {
  std::vector<rotated_plane> planes;  ///< cover the coordinates [first, first + 2 planes.size()); the others stay
  index_t first = 0;
  double factor = 1;          ///< multiplies the rotated coordinates
  query_growth from{}, to{};  ///< rows are divided by `from` at the old position and multiplied by `to` at the new one
};

/// Rotates x into y. One call rotates one plane of a row, or copies one coordinate outside all planes, in all heads.
template <class From, class To, memory_space Space>
struct rotated_slot {
  tensor_view<const From, Space> x;
  tensor_view<To, Space> y;
  const std::int32_t *from, *to;  ///< (rows) positions, tokens
  const rotated_plane* planes;
  index_t n_planes, first;  ///< they cover the coordinates [first, first + 2 n_planes)
  double factor;
  query_growth growth_from, growth_to;

  QKGEOM_HD index_t slots() const { return x.dim - n_planes; }
  QKGEOM_HD void operator()(index_t i) const { at(i / slots(), i % slots()); }

  QKGEOM_HD void at(index_t row, index_t slot) const {
    const double growth = growth_to.at(to[row]) / growth_from.at(from[row]);
    const From* source = x.data + row * x.row_stride;
    To* target = y.data + row * y.row_stride;
    if (slot >= n_planes) {
      const index_t outside = slot - n_planes, c = outside < first ? outside : outside + 2 * n_planes;
      for (index_t h = 0; h < x.heads; ++h, source += x.head_stride, target += y.head_stride)
        target[c] = static_cast<To>(growth * static_cast<double>(source[c]));
      return;
    }
    const rotated_plane p = planes[slot];
    const double angle = to[row] * p.to - from[row] * p.from;
    const double cos = growth * factor * std::cos(angle), sin = growth * factor * std::sin(angle);
    for (index_t h = 0; h < x.heads; ++h, source += x.head_stride, target += y.head_stride) {
      const auto a = static_cast<double>(source[p.first]), b = static_cast<double>(source[p.second]);
      target[p.first] = static_cast<To>(cos * a - sin * b);
      target[p.second] = static_cast<To>(sin * a + cos * b);
    }
  }
};

/// Returns the rotation of x into y. Throws `error` if shapes differ or the planes do not fit.
template <class From, class To, memory_space Space>
rotated_slot<From, To, Space> rotated_slot_of(const tensor_view<const From, Space>& x,
                                              const vector_view<const std::int32_t, Space>& from,
                                              const row_rotation& rotation,
                                              const vector_view<const std::int32_t, Space>& to,
                                              const tensor_view<To, Space>& y, const rotated_plane* planes) {
  const auto n = static_cast<index_t>(rotation.planes.size());
  require(x.rows == y.rows && x.heads == y.heads && x.dim == y.dim && from.size == x.rows && to.size == x.rows,
          "rotate_rows: x, y and both positions must be of the same rows, heads and size");
  require(rotation.first + 2 * n <= x.dim, "rotate_rows: the rotary embedding rotates ", 2 * n,
          " coordinates of heads of ", x.dim);
  return {x, y, from.data, to.data, planes, n, rotation.first, rotation.factor, rotation.from, rotation.to};
}

}  // namespace qkgeom
