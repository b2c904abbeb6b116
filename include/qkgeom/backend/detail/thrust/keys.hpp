// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "qkgeom/backend/detail/pair_cells.hpp"
#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/backend/detail/thrust/moments.hpp"
#include "qkgeom/backend/detail/tiles/math.hpp"

namespace qkgeom::thrust_kernels {

/// centred(i, c) = key i of the groups' order minus its group's centre, which no difference sees.
template <class T>
struct centre_keys {
  row_segments<T> x;
  index_t head;
  const double* mean;  ///< (groups, d)
  double* centred;

  QKGEOM_HD void operator()(index_t item) const {
    const index_t i = item / x.dim, c = item % x.dim;
    centred[item] = x.at(head, i, c) - mean[place_in(x.offset, x.segments, i) * x.dim + c];
  }
};

/// mean(group, c) becomes the `grid_centre` near it.
template <class T>
struct centres_on_grid {
  row_segments<T> x;
  index_t head;
  double* mean;  ///< (groups, d)

  QKGEOM_HD void operator()(index_t item) const {
    const index_t c = item % x.dim, first = x.offset[item / x.dim], n = x.offset[item / x.dim + 1] - first;
    double low = 0, high = 0;
    for (index_t j = 0; j < backend::grid_keys(n); ++j) {
      const double k = x.at(head, first + backend::grid_key(j, n), c);
      low = j == 0 || k < low ? k : low;
      high = j == 0 || k > high ? k : high;
    }
    mean[item] = backend::grid_centre(mean[item], low, high);
  }
};

/// Keys of the groups in order, on the device.
template <class Device>
struct device_keys {
  template <class T>
  using buffer = typename Device::template buffer<T>;
  const keys_by_document& host;
  index_t n;
  buffer<std::int64_t> row;
  buffer<std::int32_t> position, document, key_document;
  buffer<index_t> offset;
  segment_averages<Device> averages;
  buffer<unsigned long long> unfinished;  ///< the first group that has a key which is not finite, or their number

  device_keys(const Device& on, const keys_by_document& g)
      : host(g),
        n(static_cast<index_t>(g.row.size())),
        row(on.copy(g.row)),
        position(on.copy(g.position)),
        document(on.copy(g.document)),
        key_document(on.copy(g.key_document)),
        offset(on.copy(g.offset)),
        averages(on, g.offset),
        unfinished(on.copy(std::vector<unsigned long long>{static_cast<unsigned long long>(g.groups())})) {}

  /// Centred keys (n, d) of one key head.
  template <class T, memory_space S>
  buffer<double> centred(const Device& on, const tensor_view<const T, S>& k, index_t head,
                         backend::key_centre about = backend::key_centre::mean) const {
    const row_segments<T> x{k.data,       k.dim,         k.heads,    host.groups(),
                            k.row_stride, k.head_stride, row.data(), offset.data()};
    auto only = x;
    only.data += head * k.head_stride;
    auto mean = averages(on, only, 1, unfinished.data());
    if (about == backend::key_centre::on_grid) on.each(mean.size(), centres_on_grid<T>{x, head, mean.data()});
    auto y = on.template make<double>(n * k.dim);
    on.each(n * k.dim, centre_keys<T>{x, head, mean.data(), y.data()});
    return y;
  }

  /// Throws if a key of any head so far was not finite. It waits, so it is asked where results are read anyway.
  void require_finite() const {
    const auto group = static_cast<index_t>(unfinished.host().front());
    if (group < host.groups()) backend::refuse_key(host, group);
  }
};

/// to(i, c) = scale sum_j map(c, j) y(i, j), added up in f64.
template <class F>
struct map_keys {
  const double *y, *map;
  index_t d, rank, width;  ///< `width` >= rank: columns of `to`, zero beyond rank
  double scale;
  F* to;

  QKGEOM_HD void operator()(index_t item) const {
    const index_t i = item / width, c = item % width;
    double sum = 0;
    if (c < rank)
      for (index_t j = 0; j < d; ++j) sum += map[c * d + j] * y[i * d + j];
    to[item] = static_cast<F>(scale * sum);
  }
};

/// H e_1 = e_1 - 2 u_1 u, which coordinate 1 of reflected keys is along; e_1 without a reflector.
inline std::vector<double> reflected_axis(const std::vector<double>& u, index_t d) {
  std::vector<double> axis(d);
  axis[0] = 1;
  for (std::size_t j = 0; j < u.size(); ++j) axis[j] -= 2 * u[0] * u[j];
  return axis;
}

/// H = I - 2uu', (d, d); the unit matrix without a reflector.
inline std::vector<double> reflection(const std::vector<double>& u, index_t d) {
  const auto n = static_cast<std::size_t>(d);
  std::vector<double> h(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    h[i * n + i] = 1;
    for (std::size_t j = 0; j < n && !u.empty(); ++j) h[i * n + j] -= 2 * u[i] * u[j];
  }
  return h;
}

/// The matrix (rank, d) that takes keys to z with v_ij = |z_i - z_j|^2.
inline std::vector<double> key_map(const score_distribution& distribution, const std::vector<double>& reflector,
                                   index_t d) {
  const auto n = static_cast<std::size_t>(d);
  if (distribution.variance.empty()) {
    const auto rank = static_cast<std::size_t>(distribution.rank);
    std::vector<double> map(rank * n);
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t c = 0; c < rank; ++c) map[c * n + j] = distribution.factor[j * rank + c];
    return map;
  }
  auto map = reflection(reflector, d);
  for (std::size_t c = 0; c < n; ++c)
    for (std::size_t j = 0; j < n; ++j) map[c * n + j] *= std::sqrt(distribution.variance[c]);
  return map;
}
inline index_t rank_of(const score_distribution& distribution, index_t d) {
  return distribution.variance.empty() ? distribution.rank : d;
}

/// What the plasticity of a pair needs: z (n, rank) and score (n), scaled alike by a power of two so that v is of order
/// 1.
template <class F>
struct plasticity_of_pair {
  static constexpr int values = 1;
  const F *z, *score;
  index_t rank;

  QKGEOM_HD void operator()(index_t a, index_t b, bool, double* out) const {
    const F *const x = z + a * rank, *const y = z + b * rank;
    F v = 0;
    for (index_t c = 0; c < rank; ++c) v += (x[c] - y[c]) * (x[c] - y[c]);
    const F m = score[a] - score[b];
    if constexpr (std::is_same_v<F, float>)
      out[0] = static_cast<double>(tile::plasticity(m, v > tile::least_v<F> ? v : tile::least_v<F>));
    else
      out[0] = tile::plasticity(m, v);
  }
};

/// Owns what plasticity_of_pair points to.
template <class Device, class F>
struct distribution_keys {
  typename Device::template buffer<F> z, score;
  index_t rank;

  distribution_keys(const Device& on, const score_distribution& distribution, const std::vector<double>& reflector,
                    const double* y, index_t n, index_t d)
      : z(on.template make<F>(n * rank_of(distribution, d))),
        score(on.template make<F>(n)),
        rank(rank_of(distribution, d)) {
    const auto map = on.copy(key_map(distribution, reflector, d)), mean = on.copy(distribution.mean);
    double scale = 1;
    if (const index_t sampled = std::min<index_t>(256, n); std::is_same_v<F, float> && sampled > 0) {
      const auto sample = on.template make<double>(sampled * rank);
      on.each(sampled * rank, map_keys<double>{y, map.data(), d, rank, rank, 1.0, sample.data()});
      double square = 0;
      for (const double x : sample.host()) square += x * x;
      scale = backend::unit_scale(square / static_cast<double>(sampled));
    }
    on.each(n * rank, map_keys<F>{y, map.data(), d, rank, rank, scale, z.data()});
    on.each(n, map_keys<F>{y, mean.data(), d, 1, 1, scale, score.data()});
  }
  plasticity_of_pair<F> evaluate() const { return {z.data(), score.data(), rank}; }
};

/// Plasticity of a pair and what stands behind it, in f64, in the order of `pair_term`.
struct pair_term_values {
  static constexpr int values = static_cast<int>(heatmap_terms::values);
  const double *z, *drift, *content, *factor;  ///< coordinates 2..d; 1; mean . y of 2..d; coordinate 1's row, or null
  index_t rank;
  double drift_mean, drift_variance;

  QKGEOM_HD void operator()(index_t a, index_t b, bool same_position, double* out) const {
    const double step = drift[a] - drift[b];
    double rest = 0, total = 0;
    for (index_t c = 0; c < rank; ++c) {
      const double x = z[a * rank + c] - z[b * rank + c];
      rest += x * x;
      if (!factor) continue;
      const double y = x + factor[c] * step;
      total += y * y;
    }
    const double along = drift_variance * step * step;
    const double v = factor ? total : along + rest;
    backend::set_pair_values(drift_mean * step, content[a] - content[b], along, rest, v, same_position, out);
  }
};

/// Owns what pair_term_values points to.
template <class Device>
struct term_keys {
  template <class T>
  using buffer = typename Device::template buffer<T>;
  buffer<double> z, drift, content, factor;
  pair_term_values made;

  term_keys(const Device& on, const score_distribution& distribution, const std::vector<double>& reflector,
            const double* y, index_t n, index_t d)
      : z(on.template make<double>(n * rank_of(distribution, d))),
        drift(on.template make<double>(n)),
        content(on.template make<double>(n)),
        factor(on.template make<double>(rank_of(distribution, d))) {
    const auto size = static_cast<std::size_t>(d);
    const auto rank = static_cast<std::size_t>(rank_of(distribution, d));
    made = {z.data(), drift.data(), content.data(), nullptr, static_cast<index_t>(rank), 0, 0};
    const auto first = reflected_axis(reflector, d);
    std::vector<double> others(distribution.mean), row(rank);
    for (std::size_t j = 0; j < size; ++j) made.drift_mean += first[j] * distribution.mean[j];
    for (std::size_t j = 0; j < size; ++j) others[j] -= made.drift_mean * first[j];
    auto map = key_map(distribution, reflector, d);
    if (distribution.variance.empty()) {
      // Coordinate 1's term of the factor: F' = row e_1' H + the map of coordinates 2..d.
      for (std::size_t c = 0; c < rank; ++c) {
        for (std::size_t j = 0; j < size; ++j) row[c] += map[c * size + j] * first[j];
        for (std::size_t j = 0; j < size; ++j) map[c * size + j] -= row[c] * first[j];
        made.drift_variance += row[c] * row[c];
      }
      factor.set(row);
      made.factor = factor.data();
    } else {
      std::fill(map.begin(), map.begin() + d, 0.0);
      made.drift_variance = distribution.variance[0];
    }
    const auto on_map = on.copy(map), on_first = on.copy(first), on_others = on.copy(others);
    on.each(n * made.rank, map_keys<double>{y, on_map.data(), d, made.rank, made.rank, 1.0, z.data()});
    on.each(n, map_keys<double>{y, on_first.data(), d, 1, 1, 1.0, drift.data()});
    on.each(n, map_keys<double>{y, on_others.data(), d, 1, 1, 1.0, content.data()});
  }
  const pair_term_values& evaluate() const { return made; }
};

}  // namespace qkgeom::thrust_kernels
