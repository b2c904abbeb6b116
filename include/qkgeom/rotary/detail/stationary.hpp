// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <utility>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/rotary/rotation_between.hpp"
#include "qkgeom/rotary/stationary.hpp"

namespace qkgeom {

namespace detail {

/// Sums over the n tokens of a stretch that begins at `start`; c is their middle position.
struct phase_sums {
  std::complex<double> mean;   ///< of e^(iwt)
  std::complex<double> slope;  ///< sum of (t - c) e^(iwt)
};

/// Computes the sums with x = w / 2: sum of e^(iw(t - c)) = sin(nx) / sin(x) = D, and sum of (t - c) e^(iw(t - c)) = -i
/// dD/dw. For small nw both are series in w, whose next terms are below 1e-13 of the value.
inline phase_sums sums_of_phases(double w, index_t start, index_t count) {
  w = std::remainder(w, 2 * std::numbers::pi);  // tokens are whole: the same phases
  const auto n = static_cast<double>(count);
  const double centre = static_cast<double>(start) + 0.5 * (n - 1);
  const std::complex<double> rotation = std::polar(1.0, w * centre);
  const double x = 0.5 * w;
  double sum = 0, derivative = 0;  // D and dD/dw
  if (std::abs(n * x) < 0.05) {
    const double m2 = n * (n * n - 1) / 12, m4 = m2 * (3 * n * n - 7) / 20,
                 m6 = m2 * (3 * n * n * n * n - 18 * n * n + 31) / 112, v = 2 * x;
    sum = n - v * v * (m2 / 2 - v * v * (m4 / 24 - v * v * m6 / 720));
    derivative = -v * (m2 - v * v * (m4 / 6 - v * v * m6 / 120));
  } else {
    const double sx = std::sin(x);
    sum = std::sin(n * x) / sx;
    derivative = 0.5 * (n * std::cos(n * x) - sum * std::cos(x)) / sx;
  }
  return {rotation * (sum / n), rotation * std::complex<double>(0, -derivative)};
}

/// Two coordinates as one complex number that rotates by w per token and grows by `factor`. A coordinate outside the
/// rotary embedding is a plane by itself.
struct rotating_plane {
  std::size_t first, second;  ///< equal for one coordinate
  double w, factor;
};

inline std::vector<rotating_plane> rotating_planes(const std::optional<captured_rope>& rope, index_t d) {
  const std::size_t rotated = rope ? 2 * rope->inv_freq.size() : 0;
  require(rotated + (rope ? static_cast<std::size_t>(rope->first) : 0) <= static_cast<std::size_t>(d),
          "the rotary embedding rotates ", rotated, " coordinates of heads of ", d);
  std::vector<rotating_plane> planes;
  for (std::size_t p = 0; 2 * p < rotated; ++p) {
    const auto [first, second] = plane_of(*rope, p);
    planes.push_back({first, second, rope->inv_freq[p], rope->attention_factor});
  }
  const std::size_t first = rope ? static_cast<std::size_t>(rope->first) : 0;
  for (std::size_t c = 0; c < static_cast<std::size_t>(d); ++c)
    if (c < first || c >= first + rotated) planes.push_back({c, c, 0, 1});
  return planes;
}

/// Phase sums over one stretch of positions, which the heads of a layer share.
struct rotating_stretch {
  index_t start, count;
  std::vector<phase_sums> plane;                      ///< (planes)
  std::vector<std::complex<double>> difference, sum;  ///< (planes, planes) means of e^(i(w_p -+ w_q)t)

  rotating_stretch(const std::vector<rotating_plane>& planes, index_t begin, index_t end)
      : start(begin), count(end - begin) {
    for (const auto& p : planes) {
      plane.push_back(sums_of_phases(p.w, start, count));
      for (const auto& q : planes) {
        difference.push_back(sums_of_phases(p.w - q.w, start, count).mean);
        sum.push_back(sums_of_phases(p.w + q.w, start, count).mean);
      }
    }
  }
};

/// A side of a head before the rotation: mean (d), and mean of x x' (d, d).
struct unrotated {
  std::vector<double> mean, square;

  explicit unrotated(const row_moments& m) : mean(m.mean), square(m.xx) {
    require(m.has_full_scatter() && m.count >= 2, "stationary_moments: needs the covariance of 2 rows or more, not of ",
            m.count);
    const std::size_t d = mean.size();
    for (std::size_t i = 0; i < d; ++i)
      for (std::size_t j = 0; j < d; ++j)
        square[i * d + j] = square[i * d + j] / static_cast<double>(m.count - 1) + mean[i] * mean[j];
  }
};

/// Returns the moments of a side over a stretch. A 2 x 2 block of `square` is z -> a z + b conj(z) of complex z;
/// rotated by its two planes, a gets the phase of their difference and b the phase of their sum.
inline row_moments rotated_moments(const unrotated& x, const std::vector<rotating_plane>& planes,
                                   const rotating_stretch& stretch) {
  using complex = std::complex<double>;
  const std::size_t d = x.mean.size(), n_planes = planes.size();
  const auto n = static_cast<double>(stretch.count);
  auto m = row_moments::zero(static_cast<index_t>(d), scatter_kind::full);
  m.count = stretch.count;
  m.mean_t = static_cast<double>(stretch.start) + 0.5 * (n - 1);
  m.tt = n * (n * n - 1) / 12;
  const auto put = [](std::vector<double>& to, const rotating_plane& p, complex z) {
    to[p.first] = z.real();
    if (p.second != p.first) to[p.second] = z.imag();
  };
  for (std::size_t p = 0; p < n_planes; ++p) {
    const auto& at = planes[p];
    const complex z = at.factor * complex(x.mean[at.first], at.second == at.first ? 0 : x.mean[at.second]);
    put(m.mean, at, z * stretch.plane[p].mean);
    put(m.xt, at, z * stretch.plane[p].slope);
  }
  const auto entry = [&](const rotating_plane& p, const rotating_plane& q, bool second_p, bool second_q) {
    if ((second_p && p.second == p.first) || (second_q && q.second == q.first)) return 0.0;
    return x.square[(second_p ? p.second : p.first) * d + (second_q ? q.second : q.first)];
  };
  for (std::size_t p = 0; p < n_planes; ++p)
    for (std::size_t q = 0; q <= p; ++q) {
      const auto &P = planes[p], &Q = planes[q];
      const double b00 = entry(P, Q, false, false), b01 = entry(P, Q, false, true), b10 = entry(P, Q, true, false),
                   b11 = entry(P, Q, true, true);
      const double factor = 0.5 * P.factor * Q.factor;
      const complex a = factor * complex(b00 + b11, b10 - b01) * stretch.difference[p * n_planes + q];
      const complex b = factor * complex(b00 - b11, b10 + b01) * stretch.sum[p * n_planes + q];
      const double rotated[2][2] = {{(a + b).real(), (b - a).imag()}, {(a + b).imag(), (a - b).real()}};
      const std::size_t rows[] = {P.first, P.second}, columns[] = {Q.first, Q.second};
      const int height = P.second == P.first ? 1 : 2, width = Q.second == Q.first ? 1 : 2;
      for (int i = 0; i < height; ++i)
        for (int j = 0; j < width; ++j) {
          const double v = n * (rotated[i][j] - m.mean[rows[i]] * m.mean[columns[j]]);
          m.xx[rows[i] * d + columns[j]] = m.xx[columns[j] * d + rows[i]] = v;
        }
    }
  return m;
}

/// A layer without queries whose keys are drawn from Gaussians before the rotation, and rotated.
class stationary_keys {
 public:
  template <context Context>
  stationary_keys(Context& ctx, const layer_moments& before, const std::optional<captured_rope>& rope, index_t length,
                  const stationary_options& options)
      : heads_(static_cast<index_t>(before.k.size())),
        d_(before.k.at(0).total.dim()),
        key_of_query_(before.key_of_query),
        window_(options.window) {
    std::vector<std::vector<double>> covariances;
    std::vector<const std::vector<double>*> matrices;
    for (const auto& k : before.k)
      covariances.push_back(dense::scaled(k.total.xx, 1 / static_cast<double>(k.total.count - 1)));
    for (const auto& c : covariances) matrices.push_back(&c);
    const auto roots = ctx.cholesky(matrices, d_);
    const index_t rows = options.draws * options.keys;
    x_.resize(rows * heads_ * d_);
    for (index_t r = 0; r < rows; ++r) {
      const index_t e = r / options.keys, i = r % options.keys;
      const random_stream draws{options.seed, static_cast<std::uint32_t>(e), 0, draw::stationary_key};
      const index_t first = length * i / options.keys, end = std::max(first + 1, length * (i + 1) / options.keys);
      const auto place = draws.below((std::uint64_t{1} << 48) + i, end - first);
      document_.push_back(static_cast<std::int32_t>(e));
      position_.push_back(static_cast<std::int32_t>(first + static_cast<index_t>(place)));
    }
    ctx.for_each(rows, [&](index_t r) {
      const index_t i = r % options.keys;
      std::optional<vector_rotation> rotation;
      if (rope) rotation = vector_rotation::between(nullptr, 0, *rope, position_[r]);
      std::vector<double> noise(d_);
      for (index_t h = 0; h < heads_; ++h) {
        const random_stream draws{options.seed, static_cast<std::uint32_t>(document_[r]), static_cast<std::uint32_t>(h),
                                  draw::stationary_key};
        const auto& root = roots[h];
        for (index_t c = 0; c < root.rank; ++c) noise[c] = draws.normal(i * d_ + c);
        double* const x = x_.data() + (r * heads_ + h) * d_;
        for (index_t j = 0; j < d_; ++j) {
          x[j] = before.k[h].total.mean[j];
          for (index_t c = 0; c < root.rank; ++c) x[j] += root.factor[j * root.rank + c] * noise[c];
        }
        if (rotation) (*rotation)(x);
      }
    });
  }
  layer_view<double> layer() const {
    const auto rows = static_cast<index_t>(position_.size());
    const vector_view<const std::int32_t> position{position_.data(), rows}, document{document_.data(), rows};
    const auto queries = static_cast<index_t>(key_of_query_.size());
    return {packed_tensor(x_.data(), 0, queries, d_),
            {},
            {},
            packed_tensor(x_.data(), rows, heads_, d_),
            position,
            document,
            key_of_query_,
            window_};
  }

 private:
  index_t heads_, d_;
  std::vector<index_t> key_of_query_;
  std::optional<index_t> window_;
  std::vector<double> x_;
  std::vector<std::int32_t> position_, document_;
};

}  // namespace detail

inline layer_moments stationary_moments(const layer_moments& before, const std::optional<captured_rope>& rope,
                                        const bucket_edges& buckets) {
  require(!before.q.empty() && !before.k.empty(), "stationary_moments: the layer has no heads");
  const auto planes = detail::rotating_planes(rope, before.q[0].total.dim());
  std::vector<detail::rotating_stretch> stretches;
  for (index_t b = 0; b < buckets.count(); ++b) stretches.emplace_back(planes, buckets.start(b), buckets.end(b));
  layer_moments rotated{buckets, {}, {}, before.key_of_query};
  const auto side = [&](const side_moments& from, scatter_kind kind) {
    const detail::unrotated x(from.total);
    side_moments to{row_moments::zero(from.total.dim(), scatter_kind::full), {}};
    for (const auto& s : stretches) {
      const auto m = detail::rotated_moments(x, planes, s);
      merge(to.total, m);
      to.bucket.push_back(row_moments::zero(m.dim(), kind));
      merge(to.bucket.back(), m);
    }
    return to;
  };
  for (const auto& q : before.q) rotated.q.push_back(side(q, scatter_kind::full));
  for (const auto& k : before.k) rotated.k.push_back(side(k, scatter_kind::diagonal));
  return rotated;
}

template <context Context>
std::vector<plasticity_profile_result> stationary_profile(Context& ctx, const layer_moments& before,
                                                          const std::optional<captured_rope>& rope,
                                                          const bucket_edges& buckets,
                                                          const stationary_options& options) {
  const auto models = fit_queries(ctx, stationary_moments(before, rope, buckets), options.model);
  const detail::stationary_keys keys(ctx, before, rope, buckets.edges().back(), options);
  return plasticity_profile(ctx, models, keys.layer(), all_pairs{});
}

inline double mean_score(const std::vector<double>& q, const std::vector<double>& k,
                         const std::optional<captured_rope>& rope, double distance) {
  double score = 0;
  for (const auto& p : detail::rotating_planes(rope, static_cast<index_t>(q.size()))) {
    const auto of = [&](const std::vector<double>& x) {
      return std::complex<double>(x[p.first], p.second == p.first ? 0 : x[p.second]);
    };
    score += p.factor * p.factor * (std::polar(1.0, p.w * distance) * of(q) * std::conj(of(k))).real();
  }
  return score;
}

}  // namespace qkgeom
