// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "qkgeom/backend/detail/cpu/scatter_sum.hpp"
#include "qkgeom/backend/detail/cpu/wide_rows.hpp"

namespace qkgeom::cpu {

/// Sums over rows of bf16, in any storage type, about a shift s by products of 16-bit integers, which cost a fourth of
/// products in f64. A block of rows has one unit per column, a power of two: x - s = n unit + rest, |n| < 2^15. Sums of
/// n n' over the block fit into 32 bits, so they are exact. The rest is 0 unless x is some hundred times smaller than
/// the column is wide (its 8 bits reach below the unit); nonzero rests, about 2 % of the values, are added separately.
class bf16_scatter {
 public:
  static constexpr index_t most_rows = 64, least_rows = 16;

  static bool takes(const wide_rows& x, index_t rows) { return x.cols % lanes<float> == 0 && rows >= least_rows; }

  /// Begins a run of at least `least_rows` rows x[order[0]], ... and sets shift (d) close to the mean of the first
  /// ones. Returns false if these are not bf16, not finite or too large.
  bool begin(const wide_rows& x, const index_t* order, index_t rows, double* shift) {
    d_ = x.cols;
    rows = std::min(rows, most_rows);
    raw_.resize(most_rows * d_);
    if (!read(x, order, rows)) return false;  // most f32 rows end here, at their first one
    rest_words_ = (d_ + 63) / 64;
    for (auto* column : {&shift_, &unit_, &inverse_}) column->resize(d_);
    wide_unit_.resize(d_);
    shift_unit_.resize(d_);
    whole_.resize(most_rows / 2 * d_);
    rest_sum_.assign(d_ * d_, 0.0f);
    aligned_vector<float> largest(d_);
    for (index_t c = 0; c < d_; c += L) {
      vec<float> sum{}, most{};
      for (index_t r = 0; r < rows; ++r) {
        const vec<float> value = widened(raw_.data() + r * d_ + c);
        sum += value;
        most = larger(most, absolute(value));
      }
      store(shift_.data() + c, sum / static_cast<float>(rows));
      store(largest.data() + c, most);
    }
    if (!std::all_of(shift_.begin(), shift_.end(), [](float s) { return std::isfinite(s); })) return false;
    for (index_t c = 0; c < d_; ++c) {
      // Rounds to a multiple of a unit far below the column's values, so that differences are multiples of their units.
      const int exponent = largest[c] > 0 ? std::ilogb(largest[c]) - 8 : 0;
      shift_[c] = std::ldexp(std::nearbyint(std::ldexp(shift_[c], -exponent)), exponent);
      shift_unit_[c] = shift_[c] == 0 ? 2 * exponent_bias : exponent + exponent_bias;
      shift[c] = shift_[c];
    }
    return true;
  }

  /// Adds the first of `left` rows to the scatter, and to mean and xt (d) the sums of x - s and of (t - t0)(x - s), t
  /// the row's position. Returns the number of added rows; 0: these rows need f64.
  index_t add(const wide_rows& x, const vector_view<const std::int32_t>& position, std::int32_t t0,
              const index_t* order, index_t left, scatter_sum& scatter, double* mean, double* xt) {
    const index_t rows = std::min(left, most_rows) / 2 * 2;
    if (rows < least_rows) return 0;
    if (!read(x, order, rows)) return 0;
    if (!set_units(rows)) return 0;
    if (set_whole(rows) > rows * d_ / 8) return 0;
    set_times(position, t0, order, rows);
    const index_t pairs = rows / 2;
    over_columns(0, [&](index_t j, auto vectors) { add_column_sums<vectors()>(pairs, j, mean, xt); });
    index_t next = rows;
    const index_t after = std::min(left, rows + most_rows);
    for (index_t i = 0; i < d_; i += block) {
      for (; next < after && (next - rows) * d_ <= i * most_rows; ++next) x.prefetch(order[next]);
      over_columns(i / L * L, [&](index_t j, auto vectors) { add_block<vectors()>(pairs, i, j, scatter); });
    }
    add_rests(position, t0, order, rows, mean, xt);
    return rows;
  }

  /// Adds the run's rests to a block (rows, columns) of the scatter that begins at (i0, j0).
  template <index_t Block>
  void add_rests(index_t i0, index_t j0, index_t rows, index_t columns, double (&to)[Block][Block]) const {
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < columns; ++j)
        to[i][j] += static_cast<double>(rest_sum_[(i0 + i) * d_ + j0 + j]) +
                    static_cast<double>(rest_sum_[(j0 + j) * d_ + i0 + i]);
  }

 private:
  using words = typename simd<float>::mask;
  static constexpr int L = lanes<float>;
  static constexpr int exponent_bias = 127;
  static constexpr float whole = 0x1.8p23f;               // added to x < 2^22, it leaves x rounded in the low bits
  static constexpr int time_digits = 3, digit_bits = 12;  // of t - t0
#if defined(__AVX512F__)
  static constexpr int block = 8, most_vectors = 3;
#else
  static constexpr int block = 4, most_vectors = 2;
#endif

  static vec<float> widened(const std::uint16_t* from) {
    half_lanes h;
    std::memcpy(&h, from, sizeof h);
    return (vec<float>)(__builtin_convertvector(h, word_lanes) << 16);
  }
  static vec<float> absolute(const vec<float>& x) { return (vec<float>)((words)x & 0x7fffffff); }
  /// Returns the biased exponent of the least power of two that is at least x >= 0; 0 for 0.
  static words exponent_above(const vec<float>& x) { return (words)(((word_lanes)x + 0x7fffff) >> 23); }

  bool read(const wide_rows& x, const index_t* order, index_t rows) {
    for (index_t r = 0; r < rows; ++r)
      if (!x.read_bf16(order[r], raw_.data() + r * d_)) return false;
    return true;
  }

  /// Sets the units of the block. Returns false if f32 cannot hold later steps, or a shift is no multiple of its unit.
  bool set_units(index_t rows) {
    bool good = true;
    for (index_t c = 0; c < d_; c += L) {
      const vec<float> shift = load(shift_.data() + c);
      vec<float> most_of[2] = {}, squares_of[2] = {};  // over even and odd rows: a chain each
      for (index_t r = 0; r < rows; r += 2)
        for (int odd = 0; odd < 2; ++odd) {
          const vec<float> y = widened(raw_.data() + (r + odd) * d_ + c) - shift;
          squares_of[odd] += y * y;
          most_of[odd] = larger(most_of[odd], absolute(y));
        }
      const vec<float> most = larger(most_of[0], most_of[1]), squares = squares_of[0] + squares_of[1];
      const vec<float> least = splat(0x1p-40f), largest = splat(0x1p40f), zero{};
      const words held = ((most == zero) | (most > least)) & (most + absolute(shift) < largest) & (squares >= zero);
      const words of_sum = ((exponent_above(squares * 0x1.03p-31f) - exponent_bias + 1) >> 1) + exponent_bias;
      words exponent = larger(exponent_above(most * 0x1.02p-15f), most > zero ? of_sum : words{});
      exponent = larger(exponent, exponent_above((most + absolute(shift)) * 0x1p-21f));
      exponent = larger(exponent, words{} + (exponent_bias - 80));
      words of_shift;
      std::memcpy(&of_shift, shift_unit_.data() + c, sizeof of_shift);
      good = good && !any_bit(~(held & (exponent <= of_shift)));
      store(unit_.data() + c, (vec<float>)(exponent << 23));
      store(inverse_.data() + c, (vec<float>)((2 * exponent_bias - exponent) << 23));
    }
    for (index_t c = 0; c < d_; ++c) wide_unit_[c] = unit_[c];
    return good;
  }

  /// Sets the integers n of pairs of adjacent rows, and which values have a rest; returns the number of rests.
  index_t set_whole(index_t rows) {
    index_t rests = 0;
    has_rest_.assign(rows * rest_words_, 0);
    for (index_t c = 0; c < d_; c += L) {
      const vec<float> unit = load(unit_.data() + c), inverse = load(inverse_.data() + c);
      const words offset = (words)(load(shift_.data() + c) * inverse + whole);
      const auto whole_of = [&](index_t r) {
        const vec<float> x = widened(raw_.data() + r * d_ + c), shifted = x * inverse + whole;
        const std::uint64_t bits = unequal_lanes((shifted - whole) * unit, x);
        has_rest_[r * rest_words_ + c / 64] |= bits << (c % 64);
        rests += std::popcount(bits);
        return (words)shifted - offset;
      };
      for (index_t r = 0; r < rows; r += 2) {
        const words first = whole_of(r), second = whole_of(r + 1);
        const words pair = (first & 0xffff) | (second << 16);
        std::memcpy(whole_.data() + r / 2 * d_ + c, &pair, sizeof pair);
      }
    }
    return rests;
  }

  /// Sets 1 and the digits of t - t0 of pairs of adjacent rows: (pairs, 1 + time_digits).
  void set_times(const vector_view<const std::int32_t>& position, std::int32_t t0, const index_t* order, index_t rows) {
    constexpr std::int64_t half = 1 << (digit_bits - 1);
    const auto at = [&](index_t r, int digit) -> std::uint16_t& {
      return times_[((r / 2) * (1 + time_digits) + digit) * 2 + r % 2];
    };
    for (index_t r = 0; r < rows; ++r) {
      std::int64_t t = std::int64_t{position[order[r]]} - t0;
      at(r, 0) = 1;
      for (int digit = 1; digit <= time_digits; ++digit) {
        const std::int64_t rounded = (t + half) >> digit_bits;
        at(r, digit) = static_cast<std::uint16_t>(t - (rounded << digit_bits));
        t = rounded;
      }
    }
  }

  /// Calls f(j, number of vectors) for columns from j on.
  template <class F>
  void over_columns(index_t j, F f) const {
    while (j < d_) {
      const index_t left = (d_ - j) / L;
      if (most_vectors == 3 && left != 4 && left >= 3) {
        f(j, std::integral_constant<int, most_vectors>{});
        j += most_vectors * L;
      } else if (left >= 2) {
        f(j, std::integral_constant<int, 2>{});
        j += 2 * L;
      } else {
        f(j, std::integral_constant<int, 1>{});
        j += L;
      }
    }
  }

  /// Sums over pairs of rows the products of Rows integers at `a`, `stride` apart, with the columns from j on.
  template <int Rows, int Vectors, class T>
  void products(index_t pairs, const T* a, index_t stride, index_t j, std::int32_t (&out)[Rows][Vectors * L]) const {
    words sum[Rows][Vectors] = {};
    const std::int32_t* b = whole_.data() + j;
    for (index_t p = 0; p < pairs; ++p, a += stride, b += d_)
#pragma GCC unroll 8
      for (int k = 0; k < Rows; ++k) {
        std::int32_t pair;
        std::memcpy(&pair, a + k * (sizeof pair / sizeof(T)), sizeof pair);
#pragma GCC unroll 3
        for (int v = 0; v < Vectors; ++v) {
          words column;
          std::memcpy(&column, b + v * L, sizeof column);
          sum[k][v] = add_pair_products(sum[k][v], pair - words{}, column);
        }
      }
    std::memcpy(out, sum, sizeof sum);
  }

  static vec<double> wide(const std::int32_t* from) {
    typedef std::int32_t half_words __attribute__((vector_size(simd_bytes / 2)));
    half_words h;
    std::memcpy(&h, from, sizeof h);
#if defined(__AVX512F__)
    return (vec<double>)_mm512_cvtepi32_pd((__m256i)h);
#else
    return __builtin_convertvector(h, vec<double>);
#endif
  }

  template <int Vectors>
  void add_block(index_t pairs, index_t i, index_t j, scatter_sum& scatter) const {
    alignas(64) std::int32_t sums[block][Vectors * L];
    products<block, Vectors>(pairs, whole_.data() + i, d_, j, sums);
    for (int k = 0; k < block; ++k) {
      double* const to = scatter.upper(i + k) + j;
      const double unit = wide_unit_[i + k];
      for (int l = 0; l < Vectors * L; l += lanes<double>)
        store(to + l, load(to + l) + wide(sums[k] + l) * (load(wide_unit_.data() + j + l) * unit));
    }
  }

  template <int Vectors>
  void add_column_sums(index_t pairs, index_t j, double* mean, double* xt) const {
    alignas(64) std::int32_t sums[1 + time_digits][Vectors * L];
    products<1 + time_digits, Vectors>(pairs, times_, 2 * (1 + time_digits), j, sums);
    for (int l = 0; l < Vectors * L; ++l) {
      double t = 0;
      for (int digit = time_digits; digit > 0; --digit) t = t * (1 << digit_bits) + sums[digit][l];
      mean[j + l] += sums[0][l] * wide_unit_[j + l];
      xt[j + l] += t * wide_unit_[j + l];
    }
  }

  /// Adds the rests: y = x - s = n unit + rest gives y y' - (n unit)(n unit)' = rest w' + w rest' with w = y - rest /
  /// 2. Rests are so small that f32 holds their products.
  void add_rests(const vector_view<const std::int32_t>& position, std::int32_t t0, const index_t* order, index_t rows,
                 double* mean, double* xt) {
    for (index_t r = 0; r < rows; ++r) {
      found_.clear();
      const double t = static_cast<double>(std::int64_t{position[order[r]]} - t0);
      for (index_t w = 0; w < rest_words_; ++w)
        for (std::uint64_t bits = has_rest_[r * rest_words_ + w]; bits != 0; bits &= bits - 1) {
          const index_t c = w * 64 + std::countr_zero(bits);
          const std::int32_t pair = whole_[r / 2 * d_ + c];
          const auto n = static_cast<std::int16_t>(r % 2 == 0 ? pair : pair >> 16);
          const double x = std::bit_cast<float>(static_cast<std::uint32_t>(raw_[r * d_ + c]) << 16);
          const double rest = x - shift_[c] - n * wide_unit_[c];
          mean[c] += rest;
          xt[c] += t * rest;
          found_.push_back({c, static_cast<float>(rest)});
        }
      for (const auto& [column, rest] : found_) {
        float* const to = rest_sum_.data() + column * d_;
        for (index_t c = 0; c < d_; c += L) {
          const vec<float> y = widened(raw_.data() + r * d_ + c) - load(shift_.data() + c);
          store(to + c, load(to + c) + y * rest);
        }
      }
      for (const auto& a : found_)
        for (const auto& b : found_) rest_sum_[a.column * d_ + b.column] -= 0.5f * a.value * b.value;
    }
  }

  struct rest_at {
    index_t column;
    float value;
  };

  index_t d_ = 0;
  aligned_vector<std::uint16_t> raw_;             ///< (rows, d) the stored block
  aligned_vector<std::int32_t> whole_;            ///< (rows / 2, d) n of two rows, the first in the lower half
  aligned_vector<float> shift_, unit_, inverse_;  ///< (d) s; units of the block; 1 / units
  aligned_vector<double> wide_unit_;              ///< (d)
  aligned_vector<std::int32_t> shift_unit_;       ///< (d) biased exponent of a unit of s
  index_t rest_words_ = 0;
  std::vector<std::uint64_t> has_rest_;  ///< (rows, rest words) a bit per column
  std::uint16_t times_[most_rows * (1 + time_digits)];
  std::vector<rest_at> found_;      ///< rests of one row
  aligned_vector<float> rest_sum_;  ///< (d, d) sums of rest w'
};

}  // namespace qkgeom::cpu
