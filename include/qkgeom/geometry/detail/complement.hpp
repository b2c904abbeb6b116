// SPDX-License-Identifier: MIT
#pragma once

#include <boost/math/tools/minima.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "qkgeom/core/random.hpp"
#include "qkgeom/geometry/complement.hpp"
#include "qkgeom/geometry/detail/fourier.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/linalg/dense.hpp"

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

/// Returns |sum over t of (re[t] + i im[t]) exp(-i omega t)|, by blocks so that few sines and cosines are needed.
inline double length_of_sum(const std::vector<double>& re, const std::vector<double>& im, double omega) {
  constexpr std::size_t block = 64;
  std::array<double, block> x{}, y{};
  for (std::size_t first = 0; first < re.size(); first += block) {
    const double angle = omega * static_cast<double>(first), c = std::cos(angle), s = std::sin(angle);
    for (std::size_t i = 0; i < std::min(block, re.size() - first); ++i) {
      x[i] += re[first + i] * c + im[first + i] * s;
      y[i] += im[first + i] * c - re[first + i] * s;
    }
  }
  std::complex<double> sum;
  for (std::size_t i = 0; i < block; ++i)
    sum += std::complex(x[i], y[i]) * std::polar(1.0, -omega * static_cast<double>(i));
  return std::abs(sum);
}

/// Returns the omega of the largest |mean exp(i(angle - omega t))| and this resultant: the largest on the grid, then
/// the largest of nine within one grid step, then Brent's method near it. `order` (rows) permutes positions.
inline std::pair<double, double> best_rotation(const position_grid& positions, const double* re, const double* im,
                                               const std::vector<std::size_t>& order) {
  std::vector<double> x(positions.grid.size()), y(positions.grid.size());
  for (std::size_t r = 0; r < order.size(); ++r) {
    x[positions.offset[r]] += re[order[r]];
    y[positions.offset[r]] += im[order[r]];
  }
  const auto half = static_cast<std::ptrdiff_t>(x.size() / 2);  // this half holds all positions
  const std::vector<double> sum_re(x.begin(), x.begin() + half), sum_im(y.begin(), y.begin() + half);
  const auto [most, k] = positions.grid.largest(x, y);
  constexpr double circle = 2 * std::numbers::pi;
  const double omega = positions.grid.frequency(k), step = circle / static_cast<double>(positions.grid.size());
  const auto length = [&](double steps) { return length_of_sum(sum_re, sum_im, omega + steps * step); };
  std::pair<double, double> best{0, most};  // steps from the grid's frequency, and the length there
  const auto keep = [&](double steps, double here) {
    if (here > best.second) best = {steps, here};
  };
  for (int quarter = -4; quarter <= 4; ++quarter) keep(0.25 * quarter, length(0.25 * quarter));
  const auto [steps, negative] = boost::math::tools::brent_find_minima(
      [&](double s) { return -length(s); }, std::max(-1.0, best.first - 0.25), std::min(1.0, best.first + 0.25), 26);
  keep(steps, -negative);
  return {std::remainder(omega + best.first * step, circle), best.second / static_cast<double>(order.size())};
}

/// Finds the rotation of one side in one plane; `key` tells the permutations of planes, sides and heads apart.
inline plane_rotation plane_rotation_of(const position_grid& positions, const double* re, const double* im,
                                        std::uint32_t key, const complement_options& options) {
  plane_rotation rotation;
  const std::size_t n = positions.offset.size();
  if (n == 0) return rotation;
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::tie(rotation.frequency, rotation.resultant) = best_rotation(positions, re, im, order);
  rotation.active = true;
  while (rotation.active && rotation.draws < options.permutations) {
    const random_stream stream{options.seed, static_cast<std::uint32_t>(rotation.draws), key, draw::permutation};
    for (std::size_t r = n - 1; r > 0; --r) std::swap(order[r], order[stream.below(r, r + 1)]);
    double drawn = best_rotation(positions, re, im, order).second;
    // If positions do not matter, both are the same sum in another order.
    if (std::abs(drawn - rotation.resultant) <= 1e-12) drawn = rotation.resultant;
    rotation.level = std::max(rotation.level, drawn);
    rotation.active = rotation.resultant > rotation.level;
    ++rotation.draws;
  }
  return rotation;
}

/// Returns the complement's planes, with variance shares but no rotations, from the eigenvectors of its pooled scatter.
inline complement_result complement_of(const moments_ref& head, const row_moments& pooled, const eigen_system& system) {
  const std::size_t d = pooled.mean.size();
  const double all = dense::trace(pooled.xx, d), floor = rounding_floor(pooled);
  std::size_t kept = 0;
  double left = 0;
  for (; kept < d && system.values[kept] > floor; ++kept) left += system.values[kept];
  complement_result result{all > 0 ? left / all : 0.0, std::vector<complement_plane>(kept / 2)};
  const auto q = dense::quadratic_rows(head.q->total.xx, system.vectors, d);
  const auto k = dense::quadratic_rows(head.k->total.xx, system.vectors, d);
  const double all_q = dense::trace(head.q->total.xx, d), all_k = dense::trace(head.k->total.xx, d);
  for (std::size_t p = 0; p < result.planes.size(); ++p) {
    auto& plane = result.planes[p];
    plane.variance_share = (system.values[2 * p] + system.values[2 * p + 1]) / all;
    plane.q.variance_share = all_q > 0 ? (q[2 * p] + q[2 * p + 1]) / all_q : 0.0;
    plane.k.variance_share = all_k > 0 ? (k[2 * p] + k[2 * p + 1]) / all_k : 0.0;
  }
  return result;
}

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
