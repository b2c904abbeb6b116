// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/error.hpp"
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

namespace detail {

/// Discrete Fourier transform X_k = sum_j x_j exp(-2 pi i j k / n), n a power of two, in O(n log n).
class fourier_grid {
 public:
  explicit fourier_grid(std::size_t n) : n_(n) {
    require(n >= 4 && std::has_single_bit(n), "fourier_grid: the size must be a power of two from 4 on, not ", n);
    for (std::size_t length = n; length >= 4; length /= 2)
      for (std::size_t j = 0; j < length / 2; ++j) {
        const double angle = -2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(length);
        cosine_.push_back(std::cos(angle));
        sine_.push_back(std::sin(angle));
      }
  }

  std::size_t size() const { return n_; }
  /// Returns frequency k, in (-pi, pi].
  double frequency(std::size_t k) const {
    const double share = static_cast<double>(k) / static_cast<double>(n_);
    return 2 * std::numbers::pi * (share > 0.5 ? share - 1 : share);
  }

  /// Returns the largest |X_k| and its k; overwrites `re` and `im` (n). `transform` leaves X_k at k's bits reversed.
  std::pair<double, std::size_t> largest(std::vector<double>& re, std::vector<double>& im) const {
    transform(re.data(), im.data(), n_, 0);
    double most = -1;
    std::size_t best = 0;
    for (std::size_t i = 0; i < n_; ++i)
      if (const double square = re[i] * re[i] + im[i] * im[i]; square > most) {
        most = square;
        best = i;
      }
    std::size_t k = 0;
    for (std::size_t bit = 1; bit < n_; bit *= 2) k = 2 * k + ((best & bit) != 0);
    return {std::sqrt(most), k};
  }

 private:
  /// Transforms depth first, so that all levels of a half run while it is in the cache. Factors start at `from`.
  void transform(double* re, double* im, std::size_t length, std::size_t from) const {
    if (length == 4) return four(re, im);
    const std::size_t half = length / 2;
    double *re2 = re + half, *im2 = im + half;
    const double *c = &cosine_[from], *s = &sine_[from];
    for (std::size_t j = 0; j < half; ++j) {
      const double x = re[j] - re2[j], y = im[j] - im2[j];
      re[j] += re2[j];
      im[j] += im2[j];
      re2[j] = x * c[j] - y * s[j];
      im2[j] = x * s[j] + y * c[j];
    }
    transform(re, im, half, from + half);
    transform(re2, im2, half, from + half);
  }

  static void four(double* re, double* im) {
    const double a = re[0] + re[2], b = re[0] - re[2], c = re[1] + re[3], d = re[1] - re[3];
    const double e = im[0] + im[2], f = im[0] - im[2], g = im[1] + im[3], h = im[1] - im[3];
    re[0] = a + c, re[1] = a - c, re[2] = b + h, re[3] = b - h;
    im[0] = e + g, im[1] = e - g, im[2] = f - d, im[3] = f + d;
  }

  std::size_t n_;
  std::vector<double> cosine_, sine_;
};

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
