// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstring>

#include "capture/forward/products/simd.hpp"
#include "capture/forward/team.hpp"

/// The team of the CPU: one thread that works on a vector register of columns at a time.
namespace qkgeom::device_kernels {

/// Columns [first, first + count) of a row, at most one register of them.
struct column_range {
  index_t first;
  int count;
};

struct simd_team {
  using value = simd::floats;
  int rank() const { return 0; }
  int size() const { return 1; }
  void sync() const {}
  float sum(simd::floats x) const { return simd::sum(x); }
  float sum(float x) const { return x; }
  float max(simd::floats x) const {
    float most = x[0];
    for (int i = 1; i < simd::lanes; ++i) most = x[i] > most ? x[i] : most;
    return most;
  }
  float max(float x) const { return x; }
  int group() const { return 0; }
  int groups() const { return 1; }
  simd_team lanes() const { return {}; }
};

template <>
struct value_functions<simd::floats> {
  template <class T>
  static simd::floats rounded(simd::floats x) {
    if constexpr (rounds_to_bf16<T>) return simd::round_to_bf16(x);
    simd::keep(x);
    return x;
  }
  static simd::floats larger(simd::floats a, simd::floats b) { return simd::max(a, b); }
  /// Returns e^x for x <= 87; NaN stays NaN.
  static simd::floats exp(simd::floats x) {
    constexpr float log2e = 1.44269504088896340736f;
    return x == x ? simd::exp2(x * log2e) : x;
  }
  static simd::floats exp2(simd::floats x) { return x == x ? simd::exp2(x) : x; }
  static simd::floats tanh(simd::floats x) {
    for (int i = 0; i < simd::lanes; ++i) x[i] = value_functions<float>::tanh(x[i]);
    return x;
  }
  /// Returns the sigmoid of x. Beyond |x| = 87 it is 0 or 1 in f32; the bound keeps the power of two finite.
  static simd::floats sigmoid(simd::floats x) {
    constexpr float log2e = 1.44269504088896340736f;
    const simd::floats bounded = simd::max(-x * log2e, simd::all(-126.0f));
    return 1.0f / (1.0f + simd::exp2(bounded < 126.0f ? bounded : simd::all(126.0f)));
  }
  static simd::floats gelu(simd::floats x) {
    for (int i = 0; i < simd::lanes; ++i) x[i] = value_functions<float>::gelu(x[i]);
    return x;
  }
};

/// Loads columns of a row; lanes beyond the last column are 0. T is float or wide_bf16, which are floats in memory.
template <class T>
simd::floats load(const T* row, column_range c, index_t step = 1) {
  static_assert(sizeof(T) == sizeof(float));
  simd::floats v{};
  if (step != 1)
    for (int i = 0; i < c.count; ++i) v[i] = row[(c.first + i) * step];
  else if (c.count == simd::lanes)
    std::memcpy(&v, row + c.first, sizeof v);
  else
    std::memcpy(&v, row + c.first, static_cast<std::size_t>(c.count) * sizeof(float));
  return v;
}
template <class T>
void store(T* row, column_range c, simd::floats x, index_t step = 1) {
  static_assert(sizeof(T) == sizeof(float));
  if constexpr (rounds_to_bf16<T>) x = simd::round_to_bf16(x);
  void* const to = row + c.first;
  if (step != 1)
    for (int i = 0; i < c.count; ++i) row[(c.first + i) * step] = T{x[i]};
  else if (c.count == simd::lanes)
    std::memcpy(to, &x, sizeof x);
  else
    std::memcpy(to, &x, static_cast<std::size_t>(c.count) * sizeof(float));
}
inline simd::floats within_row(simd::floats x, column_range c, float beyond = 0) {
  for (int lane = c.count; lane < simd::lanes; ++lane) x[lane] = beyond;
  return x;
}

template <class Use>
void for_columns(const simd_team&, index_t n, const Use& use) {
  index_t c = 0;
  for (; c + simd::lanes <= n; c += simd::lanes) use(column_range{c, simd::lanes});
  if (c < n) use(column_range{c, static_cast<int>(n - c)});
}
template <class Load, class Use>
void each_column(const simd_team& team, index_t n, const Load& load, const Use& use) {
  for_columns(team, n, [&](column_range c) { use(c, load(c)); });
}

}  // namespace qkgeom::device_kernels
