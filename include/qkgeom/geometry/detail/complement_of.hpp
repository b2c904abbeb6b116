// SPDX-License-Identifier: MIT
#pragma once

#include <boost/math/tools/minima.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "qkgeom/core/random.hpp"
#include "qkgeom/geometry/complement.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/linalg/products.hpp"

namespace qkgeom::detail {

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

QKGEOM_INLINE std::pair<double, double> best_rotation(const position_grid& positions, const double* re,
                                                      const double* im, const std::vector<std::size_t>& order) {
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

QKGEOM_INLINE plane_rotation plane_rotation_of(const position_grid& positions, const double* re, const double* im,
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

QKGEOM_INLINE complement_result complement_of(const moments_ref& head, const row_moments& pooled,
                                              const eigen_system& system) {
  const std::size_t d = pooled.mean.size();
  const double all = dense::trace(pooled.xx, d), floor = rounding_floor(pooled);
  std::size_t kept = 0;
  double left = 0;
  for (; kept < d && system.values[kept] > floor; ++kept) left += system.values[kept];
  complement_result result{all > 0 ? left / all : 0.0, std::vector<complement_plane>(kept / 2)};
  const auto q = linalg::quadratic_rows(head.q->total.xx, system.vectors, d);
  const auto k = linalg::quadratic_rows(head.k->total.xx, system.vectors, d);
  const double all_q = dense::trace(head.q->total.xx, d), all_k = dense::trace(head.k->total.xx, d);
  for (std::size_t p = 0; p < result.planes.size(); ++p) {
    auto& plane = result.planes[p];
    plane.variance_share = (system.values[2 * p] + system.values[2 * p + 1]) / all;
    plane.q.variance_share = all_q > 0 ? (q[2 * p] + q[2 * p + 1]) / all_q : 0.0;
    plane.k.variance_share = all_k > 0 ? (k[2 * p] + k[2 * p + 1]) / all_k : 0.0;
  }
  return result;
}

}  // namespace qkgeom::detail
