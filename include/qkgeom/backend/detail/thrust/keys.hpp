// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "qkgeom/backend/detail/pair_cells.hpp"
#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/backend/detail/thrust/side_moments.hpp"
#include "qkgeom/backend/detail/tiles/math.hpp"

namespace qkgeom::thrust_kernels {

template <class T>
struct size_of_value {
  const T* data;
  index_t dim, heads, row_stride, head_stride;
  QKGEOM_HD double operator()(index_t item) const {
    const index_t row = item / (heads * dim), head = item / dim % heads;
    return std::fabs(static_cast<double>(data[row * row_stride + head * head_stride + item % dim]));
  }
};

/// Returns whether f32 holds the values that pair kernels compute from a tensor; NaNs do not count.
template <class Device, class T, memory_space S>
bool f32_holds(const Device& device, const tensor_view<const T, S>& x) {
  return backend::f32_holds(thrust::transform_reduce(
      device.policy, thrust::counting_iterator<index_t>(0),
      thrust::counting_iterator<index_t>(x.rows * x.heads * x.dim),
      size_of_value<T>{x.data, x.dim, x.heads, x.row_stride, x.head_stride}, 0.0, thrust::maximum<double>()));
}

/// Sets centred(head, i, c) to key i, in group order, minus its group's centre; differences of keys do not change.
template <class T>
struct centre_keys {
  row_segments<T> x;
  index_t n;
  const double* mean;  ///< (heads, groups, d)
  double* centred;     ///< (heads, n, d)

  QKGEOM_HD void operator()(index_t item) const {
    const index_t c = item % x.dim, i = item / x.dim % n, head = item / (x.dim * n);
    centred[item] = x.at(head, i, c) - mean[(head * x.segments + place_in(x.offset, x.segments, i)) * x.dim + c];
  }
};

/// Replaces mean(head, group, c) by the `grid_centre` near it.
template <class T>
struct centres_on_grid {
  row_segments<T> x;
  double* mean;  ///< (heads, groups, d)

  QKGEOM_HD void operator()(index_t item) const {
    const index_t c = item % x.dim, group = item / x.dim % x.segments, head = item / (x.dim * x.segments);
    const index_t first = x.offset[group], n = x.offset[group + 1] - first;
    double low = 0, high = 0;
    for (index_t j = 0; j < backend::grid_keys(n); ++j) {
      const double k = x.at(head, first + backend::grid_key(j, n), c);
      low = j == 0 || k < low ? k : low;
      high = j == 0 || k > high ? k : high;
    }
    mean[item] = backend::grid_centre(mean[item], low, high);
  }
};

/// The keys of a call on the device, in the order of the groups.
template <class Device>
struct device_keys {
  template <class T>
  using buffer = typename Device::template buffer<T>;
  const keys_by_document& host;
  index_t n;  ///< keys
  buffer<std::int64_t> row;
  buffer<std::int32_t> position, document, key_document;
  buffer<index_t> offset;
  segment_averages<Device> averages;
  buffer<unsigned long long> non_finite;  ///< the first group with a non-finite key, else the number of groups

  device_keys(const Device& device, const keys_by_document& g)
      : host(g),
        n(static_cast<index_t>(g.row.size())),
        row(device.copy(g.row)),
        position(device.copy(g.position)),
        document(device.copy(g.document)),
        key_document(device.copy(g.key_document)),
        offset(device.copy(g.offset)),
        averages(device, g.offset),
        non_finite(device.copy(std::vector<unsigned long long>{static_cast<unsigned long long>(g.groups())})) {}

  /// Returns centred keys (heads, n, d) of key heads [first, first + heads).
  template <class T, memory_space S>
  buffer<double> centred(const Device& device, const tensor_view<const T, S>& k, index_t first, index_t heads,
                         backend::key_centre about = backend::key_centre::mean) const {
    auto x = segments_of(k, host.groups(), row.data(), offset.data());
    x.data += first * k.head_stride;
    auto mean = averages(device, x, heads, non_finite.data());
    if (about == backend::key_centre::on_grid) device.each(mean.size(), centres_on_grid<T>{x, mean.data()});
    auto y = device.template make<double>(heads * n * k.dim);
    device.each(y.size(), centre_keys<T>{x, n, mean.data(), y.data()});
    return y;
  }

  /// Throws if a centred key is not finite. Synchronises the stream; call it only where results are read back.
  void require_finite() const {
    const auto group = static_cast<index_t>(non_finite.host().front());
    if (group < host.groups()) backend::refuse_key(host, group);
  }
};

/// Writes scale sum_j map(c, j) y(i, j), summed in f64, to to(i, c).
template <class F>
struct map_keys {
  const double *y, *map;
  index_t d, rank, width;  ///< `width` >= rank: columns of `to`, zero beyond rank
  F* to;
  double scale = 1;

  QKGEOM_HD void operator()(index_t item) const {
    const index_t i = item / width, c = item % width;
    double sum = 0;
    if (c < rank)
      for (index_t j = 0; j < d; ++j) sum += map[c * d + j] * y[i * d + j];
    to[item] = static_cast<F>(scale * sum);
  }
};

/// Returns the number of columns of z, from which v is computed.
inline index_t rank_of(const score_distribution& scores, index_t d) {
  return scores.variance.empty() ? scores.rank : d;
}

/// Returns the matrix (rank, d) that maps keys to z with v_ij = |z_i - z_j|^2.
inline std::vector<double> key_map(const score_distribution& scores, const std::vector<double>& reflector, index_t d) {
  const index_t rank = rank_of(scores, d);
  std::vector<double> map(rank * d);
  for (index_t c = 0; c < rank; ++c)
    for (index_t j = 0; j < d; ++j) {
      double& entry = map[c * d + j];
      if (scores.variance.empty()) {
        entry = scores.factor[j * rank + c];
        continue;
      }
      entry = c == j ? 1 : 0;
      if (!reflector.empty()) entry -= 2 * reflector[c] * reflector[j];
      entry *= std::sqrt(scores.variance[c]);
    }
  return map;
}

/// A score distribution split into the drift, coordinate 1 of the reflected keys, and the content, the others.
struct drift_split {
  std::vector<double> axis;       ///< (d) H e_1: a key's coordinate 1 is axis . key
  double mean = 0, variance = 0;  ///< of coordinate 1
  std::vector<double> content;    ///< (d) the mean without coordinate 1
  std::vector<double> row;        ///< (rank) row of the factor for coordinate 1; empty: a diagonal covariance

  drift_split(const score_distribution& scores, const std::vector<double>& reflector, index_t d)
      : axis(d), content(scores.mean) {
    axis[0] = 1;
    for (std::size_t j = 0; j < reflector.size(); ++j) axis[j] -= 2 * reflector[0] * reflector[j];
    for (index_t j = 0; j < d; ++j) mean += axis[j] * scores.mean[j];
    for (index_t j = 0; j < d; ++j) content[j] -= mean * axis[j];
    if (!scores.variance.empty()) {
      variance = scores.variance[0];
      return;
    }
    row.resize(scores.rank);
    for (index_t c = 0; c < scores.rank; ++c) {
      for (index_t j = 0; j < d; ++j) row[c] += scores.factor[j * scores.rank + c] * axis[j];
      variance += row[c] * row[c];
    }
  }
};

// A pair function is a value with `static constexpr int values` and operator()(a, b, same_position, out), which writes
// that many numbers about the pair of keys a and b to `out`.

/// The plasticity of a pair, from z (n, rank) and score (n), both scaled by one power of two that brings v to order 1.
template <class F>
struct plasticity_function {
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

template <class Device, class F>
struct plasticity_keys {
  typename Device::template buffer<F> z, score;
  index_t rank;

  plasticity_keys(const Device& device, const score_distribution& scores, const std::vector<double>& reflector,
                  const double* y, index_t n, index_t d)
      : z(device.template make<F>(n * rank_of(scores, d))),
        score(device.template make<F>(n)),
        rank(rank_of(scores, d)) {
    const auto map = device.copy(key_map(scores, reflector, d)), mean = device.copy(scores.mean);
    double scale = 1;
    if (const index_t sampled = std::min<index_t>(256, n); std::is_same_v<F, float> && sampled > 0) {
      const auto sample = device.template make<double>(sampled * rank);
      device.each(sampled * rank, map_keys<double>{y, map.data(), d, rank, rank, sample.data()});
      double square = 0;
      for (const double x : sample.host()) square += x * x;
      scale = backend::unit_scale(square / static_cast<double>(sampled));
    }
    device.each(n * rank, map_keys<F>{y, map.data(), d, rank, rank, z.data(), scale});
    device.each(n, map_keys<F>{y, mean.data(), d, 1, 1, score.data(), scale});
  }
  plasticity_function<F> function() const { return {z.data(), score.data(), rank}; }
};

/// The plasticity of a pair and its terms, in f64, in the order of `pair_term`.
struct term_function {
  static constexpr int values = static_cast<int>(heatmap_terms::values);
  const double *z, *drift, *content;  ///< (n, rank) of coordinates 2..d; (n) coordinate 1; (n) mean . key of 2..d
  const double* factor;               ///< (rank) row of the factor for coordinate 1; null: a diagonal covariance
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

template <class Device>
struct term_keys {
  typename Device::template buffer<double> z, drift, content, factor;
  term_function made;

  term_keys(const Device& device, const score_distribution& scores, const std::vector<double>& reflector,
            const double* y, index_t n, index_t d)
      : z(device.template make<double>(n * rank_of(scores, d))),
        drift(device.template make<double>(n)),
        content(device.template make<double>(n)),
        factor(device.template make<double>(rank_of(scores, d))) {
    const drift_split split(scores, reflector, d);
    const index_t rank = rank_of(scores, d);
    made = {z.data(), drift.data(), content.data(), nullptr, rank, split.mean, split.variance};
    auto map = key_map(scores, reflector, d);
    if (scores.variance.empty()) {
      // F' = row e_1' H + the map of coordinates 2..d, which z uses.
      for (index_t c = 0; c < rank; ++c)
        for (index_t j = 0; j < d; ++j) map[c * d + j] -= split.row[c] * split.axis[j];
      factor.set(split.row);
      made.factor = factor.data();
    } else {
      std::fill(map.begin(), map.begin() + d, 0.0);
    }
    const auto on_map = device.copy(map), on_axis = device.copy(split.axis), on_content = device.copy(split.content);
    device.each(n * rank, map_keys<double>{y, on_map.data(), d, rank, rank, z.data()});
    device.each(n, map_keys<double>{y, on_axis.data(), d, 1, 1, drift.data()});
    device.each(n, map_keys<double>{y, on_content.data(), d, 1, 1, content.data()});
  }
  const term_function& function() const { return made; }
};

}  // namespace qkgeom::thrust_kernels
