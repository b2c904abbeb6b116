// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/geometry/complement.hpp"
#include "qkgeom/geometry/detail/fourier.hpp"
#include "qkgeom/geometry/pca.hpp"

namespace qkgeom {

namespace detail {

/// Unit vectors exp(i angle) of one side's rows in each plane; 0 for a row at the plane's origin.
struct plane_angles {
  std::size_t rows = 0;
  std::vector<double> re, im;  ///< (planes, rows)
};

/// Projects the rows x (n, d) on consecutive pairs of the first 2 `planes` rows of `components` (d, d).
template <context Context, class T>
plane_angles angles_in_planes(Context& ctx, const matrix_view<const T>& x, const std::vector<double>& components,
                              std::size_t planes) {
  const std::size_t n = x.rows, d = x.cols, m = 2 * planes;
  std::vector<double> across(d * m);  // components transposed, (d, m)
  for (std::size_t c = 0; c < m; ++c)
    for (std::size_t i = 0; i < d; ++i) across[i * m + c] = components[c * d + i];
  plane_angles angles{n, std::vector<double>(planes * n), std::vector<double>(planes * n)};
  constexpr std::size_t block = 256;
  ctx.for_each((n + block - 1) / block, [&](index_t number) {
    std::vector<double> y(m);
    const std::size_t first = number * block;
    for (std::size_t r = first; r < std::min(n, first + block); ++r) {
      std::fill(y.begin(), y.end(), 0.0);
      for (std::size_t i = 0; i < d; ++i) {
        const auto value = static_cast<double>(x(r, i));
        const double* row = across.data() + i * m;
        for (std::size_t c = 0; c < m; ++c) y[c] += value * row[c];
      }
      for (std::size_t p = 0; p < planes; ++p)
        if (const double length = std::hypot(y[2 * p], y[2 * p + 1]); length > 0) {
          angles.re[p * n + r] = y[2 * p] / length;
          angles.im[p * n + r] = y[2 * p + 1] / length;
        }
    }
  });
  return angles;
}

/// Positions of one side, and a grid of frequencies twice as fine as 2 pi / T, T the span of the positions.
struct position_grid {
  std::vector<std::size_t> offset;  ///< (rows) position after the first
  fourier_grid grid;

  explicit position_grid(const vector_view<const std::int32_t>& position)
      : offset(offsets(position)), grid(size(offset)) {}

  static std::vector<std::size_t> offsets(const vector_view<const std::int32_t>& position) {
    std::vector<std::size_t> t;
    if (position.size == 0) return t;
    const auto first = *std::min_element(position.begin(), position.end());
    for (const auto p : position) t.push_back(index_t{p} - first);
    return t;
  }
  static std::size_t size(const std::vector<std::size_t>& t) {
    const std::size_t span = t.empty() ? 1 : *std::max_element(t.begin(), t.end()) + 1;
    return std::bit_ceil(std::max<std::size_t>(4, 2 * span));
  }
};

/// Returns the omega of the largest |mean exp(i(angle - omega t))| and this resultant: the largest on the grid, then
/// the largest of nine within one grid step, then Brent's method near it. `order` (rows) permutes positions.
QKGEOM_INLINE std::pair<double, double> best_rotation(const position_grid& positions, const double* re,
                                                      const double* im, const std::vector<std::size_t>& order);

/// Finds the rotation of one side in one plane; `key` tells the permutations of planes, sides and heads apart.
QKGEOM_INLINE plane_rotation plane_rotation_of(const position_grid& positions, const double* re, const double* im,
                                               std::uint32_t key, const complement_options& options);

/// Returns the complement's planes, with variance shares but no rotations, from the eigenvectors of its pooled scatter.
QKGEOM_INLINE complement_result complement_of(const moments_ref& head, const row_moments& pooled,
                                              const eigen_system& system);

/// One side (queries or keys) of a head in the planes of its complement.
template <class T>
struct complement_side {
  matrix_view<const T> rows;
  const position_grid& positions;
  plane_rotation complement_plane::*rotation;  ///< member of each plane to fill in
  std::uint32_t key;                           ///< of the first plane's permutations
};

/// Fills in the rotations of one side; `components` (d, d) are the eigenvectors of the complement.
template <context Context, class T>
void find_rotations(Context& ctx, const complement_side<T>& side, const std::vector<double>& components,
                    complement_result& result, const complement_options& options) {
  const std::size_t planes = result.planes.size();
  const auto angles = angles_in_planes(ctx, side.rows, components, planes);
  ctx.for_each(planes, [&](index_t p) {
    plane_rotation& rotation = result.planes[p].*side.rotation;
    const double share = rotation.variance_share;
    rotation = plane_rotation_of(side.positions, &angles.re[p * angles.rows], &angles.im[p * angles.rows],
                                 side.key + 2 * static_cast<std::uint32_t>(p), options);
    rotation.variance_share = share;
  });
}

}  // namespace detail

template <context Context, class T>
std::vector<complement_result> complement_planes(Context& ctx, const layer_view<T, memory_space::host>& layer,
                                                 const layer_moments& moments,
                                                 const std::vector<rotation_result>& planes,
                                                 const complement_options& options) {
  check_shapes(layer);
  check_moments("complement_planes", moments, layer);
  require(options.permutations >= 1, "complement_planes: permutations must be at least 1, not ", options.permutations);
  require(static_cast<index_t>(planes.size()) == layer.q.heads, "complement_planes: ", planes.size(), " rotations for ",
          layer.q.heads, " query heads");
  for (const auto& plane : planes)
    require(static_cast<index_t>(plane.drift_axis.size()) == layer.q.dim &&
                static_cast<index_t>(plane.separation_axis.size()) == layer.q.dim,
            "complement_planes: axes of size ", plane.drift_axis.size(), " and ", plane.separation_axis.size(),
            " for queries and keys of size ", layer.q.dim);
  const auto heads = heads_of(moments);
  std::vector<row_moments> pooled(heads.size());
  std::vector<std::vector<double>> left(heads.size());
  ctx.for_each(layer.q.heads, [&](index_t h) {
    pooled[h] = pooled_moments(heads[h]);
    left[h] =
        detail::projected_off(detail::projected_off(pooled[h].xx, planes[h].drift_axis), planes[h].separation_axis);
  });
  std::vector<const std::vector<double>*> matrices;
  for (const auto& m : left) matrices.push_back(&m);
  const auto systems = ctx.symmetric_eigen(matrices, layer.q.dim);
  const detail::position_grid q_grid(layer.q_position), k_grid(layer.k_position);
  std::vector<complement_result> results;
  for (std::size_t h = 0; h < heads.size(); ++h) {
    auto result = detail::complement_of(heads[h], pooled[h], systems[h]);
    const auto view = layer.head(h);
    const auto key = static_cast<std::uint32_t>(2 * h * layer.q.dim);
    const detail::complement_side<T> q{view.q, q_grid, &complement_plane::q, key},
        k{view.k, k_grid, &complement_plane::k, key + 1};
    for (const auto* side : {&q, &k}) detail::find_rotations(ctx, *side, systems[h].vectors, result, options);
    for (auto& p : result.planes)
      if (p.k.frequency < 0) {
        p.q.frequency = -p.q.frequency;
        p.k.frequency = -p.k.frequency;
      }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/geometry/detail/complement_of.hpp"
#endif
