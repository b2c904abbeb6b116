// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// Sizes of values that f64 sums accept: products of four of them stay inside its range.
inline constexpr double smallest_size = 1e-70, largest_size = 1e70;
/// Returns whether `largest`, the largest size of some values, is 0 or within these bounds.
inline bool takes_size(double largest) { return largest == 0 || (largest >= smallest_size && largest <= largest_size); }

enum class scatter_kind { diagonal, full };

/// Mergeable moments of rows (x, t), x of size d, t the position in tokens: sums of squares and products about the
/// means, not divided by n (docs/mathematics.md, Moments).
struct row_moments {
  index_t count = 0;
  double mean_t = 0;
  double tt = 0;             ///< sum (t - mean_t)^2
  std::vector<double> mean;  ///< (d)
  std::vector<double> xt;    ///< (d) sum (x - mean)(t - mean_t)
  std::vector<double> xx;    ///< (d, d) sum (x - mean)(x - mean)', or its diagonal (d)

  static row_moments zero(index_t dim, scatter_kind kind) {
    const std::vector<double> d(dim);
    return {0, 0, 0, d, d, std::vector<double>(kind == scatter_kind::full ? dim * dim : dim)};
  }
  index_t dim() const { return static_cast<index_t>(mean.size()); }
  bool has_full_scatter() const { return xx.size() == mean.size() * mean.size(); }
  /// Returns sum (x_i - mean_i)^2.
  double xx_diagonal(index_t i) const { return xx[has_full_scatter() ? i * dim() + i : i]; }
  bool operator==(const row_moments&) const = default;
};

/// Adds the moments of further rows (Chan, Golub & LeVeque 1979). Full moments merge into diagonal ones, but not
/// diagonal ones into full ones. Throws if head sizes differ.
inline void merge(row_moments& into, const row_moments& from) {
  require(into.dim() == from.dim(), "cannot merge moments of head size ", from.dim(), " into head size ", into.dim());
  if (from.count == 0) return;
  const bool full = into.has_full_scatter();
  require(!full || from.has_full_scatter(), "cannot merge moments without covariance into moments with covariance");
  const auto d = into.mean.size();
  const double na = static_cast<double>(into.count), nb = static_cast<double>(from.count), n = na + nb;
  const double weight = na * nb / n, share = nb / n;
  const double dt = from.mean_t - into.mean_t;
  std::vector<double> dx(d);
  for (std::size_t i = 0; i < d; ++i) dx[i] = from.mean[i] - into.mean[i];
  if (full) {
    for (std::size_t i = 0; i < d; ++i) {
      const double wi = weight * dx[i];
      double* row = &into.xx[i * d];
      const double* add = &from.xx[i * d];
      for (std::size_t j = 0; j < d; ++j) row[j] += add[j] + wi * dx[j];
    }
  } else {
    for (std::size_t i = 0; i < d; ++i) into.xx[i] += from.xx_diagonal(i) + weight * dx[i] * dx[i];
  }
  for (std::size_t i = 0; i < d; ++i) {
    into.xt[i] += from.xt[i] + weight * dx[i] * dt;
    into.mean[i] += share * dx[i];
  }
  into.tt += from.tt + weight * dt * dt;
  into.mean_t += share * dt;
  into.count += from.count;
}

/// Moments of one side (queries or keys) of a head: over all rows, and per bucket.
struct side_moments {
  row_moments total;                ///< with the full scatter
  std::vector<row_moments> bucket;  ///< (buckets); rows outside all buckets count in `total` only
  bool operator==(const side_moments&) const = default;
};

}  // namespace qkgeom
