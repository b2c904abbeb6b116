// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <tuple>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/geometry/detail/fourier.hpp"
#include "qkgeom/geometry/rotation.hpp"

namespace qkgeom {

struct complement_options {
  /// Draws of permuted positions. A plane is active if it beats all n, or a bound that at most 1 permutation in n + 1
  /// exceeds: 99 draws, 99 % level.
  index_t permutations = 99;
  std::uint64_t seed = 0;  ///< of the permutations
};

/// How one side (queries or keys) turns with position in a plane of the complement.
struct plane_turn {
  double frequency = 0;       ///< omega, radians a token, in (-pi, pi]
  double resultant = 0;       ///< |mean exp(i(angle - omega t))|, 1: the angle is a linear function of position
  double level = 0;           ///< largest resultant of the draws; with no draws the bound
  index_t draws = 0;          ///< permutations drawn: they end with the first that is not beaten
  bool active = false;        ///< the resultant beats the level of permuted positions
  double variance_share = 0;  ///< the plane's share of this side's own variance
};

/// Two consecutive principal components of the complement.
struct complement_plane {
  double variance_share = 0;  ///< of the pooled variance of the head
  plane_turn q, k;            ///< the plane is oriented so that k.frequency >= 0
};

/// The complement of the plane {a, b} (section 4.3.3).
struct complement_result {
  double variance_share = 0;             ///< of the pooled variance: 1 - plane_var_fraction
  std::vector<complement_plane> planes;  ///< (about (d - 2) / 2), by variance; components without variance are left out
};

namespace detail {

/// Unit vectors exp(i angle) of the rows of one side in each plane; a row at the origin of a plane has none (0).
struct plane_angles {
  std::size_t rows = 0;
  std::vector<double> re, im;  ///< (planes, rows)
};

/// Projects the rows x (n, d) on consecutive pairs of the first 2 `planes` rows of `components` (d, d).
template <context Context, class T>
plane_angles angles_in_planes(Context& ctx, const matrix_view<const T>& x, const std::vector<double>& components,
                              std::size_t planes) {
  const auto n = static_cast<std::size_t>(x.rows), d = static_cast<std::size_t>(x.cols), m = 2 * planes;
  std::vector<double> across(d * m);  // (d, m): a row of x is added up entry by entry
  for (std::size_t c = 0; c < m; ++c)
    for (std::size_t i = 0; i < d; ++i) across[i * m + c] = components[c * d + i];
  plane_angles angles{n, std::vector<double>(planes * n), std::vector<double>(planes * n)};
  constexpr std::size_t block = 256;
  ctx.for_each(static_cast<index_t>((n + block - 1) / block), [&](index_t part) {
    std::vector<double> y(m);
    const std::size_t first = static_cast<std::size_t>(part) * block;
    for (std::size_t r = first; r < std::min(n, first + block); ++r) {
      std::fill(y.begin(), y.end(), 0.0);
      for (std::size_t i = 0; i < d; ++i) {
        const auto value = static_cast<double>(x(static_cast<index_t>(r), static_cast<index_t>(i)));
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

/// Positions of one side and the grid of frequencies that resolves them: twice as fine as 2 pi / T, T the span.
struct position_grid {
  std::vector<std::size_t> at;  ///< (rows) position past the first
  fourier_grid grid;

  explicit position_grid(const vector_view<const std::int32_t>& position) : at(offsets(position)), grid(size(at)) {}

  static std::vector<std::size_t> offsets(const vector_view<const std::int32_t>& position) {
    std::vector<std::size_t> t;
    if (position.size == 0) return t;
    const auto first = *std::min_element(position.begin(), position.end());
    for (const auto p : position) t.push_back(static_cast<std::size_t>(index_t{p} - first));
    return t;
  }
  static std::size_t size(const std::vector<std::size_t>& t) {
    const std::size_t span = t.empty() ? 1 : *std::max_element(t.begin(), t.end()) + 1;
    return std::bit_ceil(std::max<std::size_t>(4, 2 * span));
  }
};

/// Largest |mean exp(i(angle - omega t))| over the grid, and where; `order` (rows) permutes the rows' positions.
inline std::pair<double, std::size_t> best_on_grid(const position_grid& positions, const double* re, const double* im,
                                                   const std::vector<std::size_t>& order) {
  std::vector<double> x(positions.grid.size()), y(positions.grid.size());
  for (std::size_t r = 0; r < order.size(); ++r) {
    x[positions.at[r]] += re[order[r]];
    y[positions.at[r]] += im[order[r]];
  }
  const auto [sum, k] = positions.grid.largest(x, y);
  return {sum / static_cast<double>(order.size()), k};
}

/// Newton's steps on |sum exp(i(angle - omega t))|^2 from a grid frequency, kept within a step of the grid. Gives omega
/// and the resultant there, never below the grid's.
inline std::pair<double, double> refined(const position_grid& positions, const double* re, const double* im,
                                         double start, double resultant) {
  const auto n = static_cast<double>(positions.at.size());
  const double step = 2 * std::numbers::pi / static_cast<double>(positions.grid.size());
  const double centre = 0.25 * static_cast<double>(positions.grid.size());  // keeps the derivatives' terms small
  std::pair<double, double> best{start, resultant};
  double omega = start;
  for (int i = 0; i < 8; ++i) {
    std::array<double, 6> f{};  // F, F', F'' of F = sum u exp(-i omega t): real and imaginary parts
    for (std::size_t r = 0; r < positions.at.size(); ++r) {
      const double t = static_cast<double>(positions.at[r]) - centre, c = std::cos(omega * t), s = std::sin(omega * t);
      const double x = re[r] * c + im[r] * s, y = im[r] * c - re[r] * s;
      f[0] += x, f[1] += y;
      f[2] += t * y, f[3] -= t * x;
      f[4] -= t * t * x, f[5] -= t * t * y;
    }
    if (const double here = std::hypot(f[0], f[1]) / n; here > best.second) best = {omega, here};
    const double slope = f[0] * f[2] + f[1] * f[3];
    const double curve = f[2] * f[2] + f[3] * f[3] + f[0] * f[4] + f[1] * f[5];
    if (!(curve < 0)) break;
    const double next = std::clamp(omega - slope / curve, start - step, start + step);
    if (std::abs(next - omega) < 1e-9 * step) break;
    omega = next;
  }
  return best;
}

/// A resultant that permuted positions exceed at any of `grid` frequencies with a probability of at most `chance`, from
/// Chatterjee's inequality (2007) for sums over a random permutation; `mean_length` = |mean exp(i angle)|. A plane
/// above it beats the level without a draw.
inline double level_bound(double mean_length, double rows, double grid, double chance) {
  const double a = std::log(4 * grid / chance);
  return mean_length +
         (std::sqrt(32 * a * a + 64 * rows * a * (1 + mean_length)) + 4 * std::sqrt(2.0) * a) / (2 * rows);
}

/// Finds the turn of one side in one plane; `key` keeps the permutations of planes, sides and heads apart.
inline plane_turn turn_of(const position_grid& positions, const double* re, const double* im, std::uint32_t key,
                          const complement_options& options) {
  plane_turn turn;
  const std::size_t n = positions.at.size();
  if (n == 0) return turn;
  std::vector<std::size_t> order(n);
  for (std::size_t r = 0; r < n; ++r) order[r] = r;
  const auto [found, k] = best_on_grid(positions, re, im, order);
  std::tie(turn.frequency, turn.resultant) = refined(positions, re, im, positions.grid.frequency(k), found);
  double x = 0, y = 0;
  for (std::size_t r = 0; r < n; ++r) x += re[r], y += im[r];
  const double chance = 1.0 / static_cast<double>(options.permutations + 1);
  turn.level = level_bound(std::hypot(x, y) / static_cast<double>(n), static_cast<double>(n),
                           static_cast<double>(positions.grid.size()), chance);
  if ((turn.active = found > turn.level)) return turn;
  turn.level = 0;
  turn.active = true;
  while (turn.active && turn.draws < options.permutations) {
    const random_stream stream{options.seed, static_cast<std::uint32_t>(turn.draws), key, draw::permutation};
    for (std::size_t r = n - 1; r > 0; --r) std::swap(order[r], order[stream.below(r, r + 1)]);
    turn.level = std::max(turn.level, best_on_grid(positions, re, im, order).first);
    turn.active = found > turn.level * (1 + 1e-9);  // where positions do not matter both are the same sum
    ++turn.draws;
  }
  return turn;
}

/// Planes of the complement from the eigenvectors of its pooled scatter; `find_turns` fills in what needs rows.
inline complement_result complement_of(const moments_ref& head, const row_moments& pooled, const eigen_system& system) {
  const auto d = static_cast<std::size_t>(pooled.dim());
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

template <context Context, class T>
void find_turns(Context& ctx, const matrix_view<const T>& x, const position_grid& positions,
                const std::vector<double>& components, complement_result& result, plane_turn complement_plane::*side,
                std::uint32_t key, const complement_options& options) {
  const std::size_t planes = result.planes.size();
  const auto angles = angles_in_planes(ctx, x, components, planes);
  ctx.for_each(static_cast<index_t>(planes), [&](index_t i) {
    const auto p = static_cast<std::size_t>(i);
    plane_turn& turn = result.planes[p].*side;
    const double share = turn.variance_share;
    turn = turn_of(positions, &angles.re[p * angles.rows], &angles.im[p * angles.rows],
                   key + 2 * static_cast<std::uint32_t>(p), options);
    turn.variance_share = share;
  });
}

}  // namespace detail

/// Rotation planes of each head of a layer in the complement of its plane {a, b}: principal components of the pooled
/// rows without their a and b parts, in consecutive pairs, and in each pair, for queries and keys apart, the frequency
/// at which the angle about the origin, atan2(x_{2i+1}, x_{2i}), follows position best, with a test by permuted
/// positions. `moments` are the layer's, `planes` what `planar_rotation` gave for them. Omega is sought on a grid of
/// all frequencies in (-pi, pi], at least twice as fine as 2 pi / T, T the span of positions; the test compares grid
/// with grid; then omega is refined. Cost: O(T log T + n) a plane, side and draw, O(n d^2) a head for n rows; strong
/// planes are decided by a bound without draws, most others by the first few. Needs rows on the host. Throws if the
/// arguments do not fit each other.
template <context Context, class T>
std::vector<complement_result> complement_planes(Context& ctx, const layer_view<T, memory_space::host>& layer,
                                                 const layer_moments& moments,
                                                 const std::vector<rotation_result>& planes,
                                                 const complement_options& options = {}) {
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
  ctx.for_each(layer.q.heads, [&](index_t i) {
    const auto h = static_cast<std::size_t>(i);
    pooled[h] = heads[h].q->total;
    merge(pooled[h], heads[h].k->total);
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
    const auto view = layer.head(static_cast<index_t>(h));
    const auto key = static_cast<std::uint32_t>(2 * h * static_cast<std::size_t>(layer.q.dim));
    detail::find_turns(ctx, view.q, q_grid, systems[h].vectors, result, &complement_plane::q, key, options);
    detail::find_turns(ctx, view.k, k_grid, systems[h].vectors, result, &complement_plane::k, key + 1, options);
    for (auto& p : result.planes)
      if (p.k.frequency < 0) {
        p.q.frequency = -p.q.frequency;
        p.k.frequency = -p.k.frequency;
      }
    results.push_back(std::move(result));
  }
  return results;
}

/// The same for one head.
template <context Context, class T>
complement_result complement_planes(Context& ctx, const head_view<T, memory_space::host>& head,
                                    const head_moments& moments, const rotation_result& plane,
                                    const complement_options& options = {}) {
  const layer_moments layer{moments.buckets, {moments.q}, {moments.k}, {0}};
  return std::move(complement_planes(ctx, as_layer(head), layer, {plane}, options).front());
}

}  // namespace qkgeom
