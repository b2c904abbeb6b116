// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

QKGEOM_INLINE void merge(row_moments& into, const row_moments& from) {
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

}  // namespace qkgeom
