// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "qkgeom/core/error.hpp"

namespace qkgeom::detail {

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

}  // namespace qkgeom::detail
