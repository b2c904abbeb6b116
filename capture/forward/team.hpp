// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <type_traits>

#include "capture/model/description.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"

/// The team that runs a row kernel (kernels.hpp and the files of single steps): one source serves GPU and CPU. A team
/// shares the work on a row: rank() of size() threads, sync(), sum and max over all of them, and groups() of lanes()
/// threads each, a warp. A thread works on a `value` at a time: a float, or on the CPU a vector register
/// (simd_team.hpp).
namespace qkgeom::device_kernels {

/// A team of one thread that works on one float at a time, for the host in a device's place.
struct one_thread {
  using value = float;
  int rank() const { return 0; }
  int size() const { return 1; }
  void sync() const {}
  float sum(float x) const { return x; }
  float max(float x) const { return x; }
  int group() const { return 0; }
  int groups() const { return 1; }
  one_thread lanes() const { return {}; }
};

/// The team of a device: the threads of a block, in warps of 32. `Threads` is one thread's view of the block: number()
/// of `count`, wait() for all, and across(x, step), the x of the lane of its warp whose number differs in that bit.
template <class Threads>
class block_team {
 public:
  using value = float;
  static constexpr int threads = Threads::count, warp = 32;

  /// One warp of the team.
  class warp_team {
   public:
    using value = float;
    QKGEOM_HD explicit warp_team(const Threads& mine) : mine_(mine) {}
    QKGEOM_HD int rank() const { return mine_.number() % warp; }
    QKGEOM_HD int size() const { return warp; }
    QKGEOM_HD float sum(float x) const {
      for (int step = warp / 2; step > 0; step /= 2) x += mine_.across(x, step);
      return x;
    }

   private:
    Threads mine_;
  };

  /// Keeps `partial`, a float per warp in memory that the block shares.
  QKGEOM_HD block_team(const Threads& mine, float* partial) : mine_(mine), partial_(partial) {}
  QKGEOM_HD int rank() const { return mine_.number(); }
  QKGEOM_HD int size() const { return threads; }
  QKGEOM_HD void sync() const { mine_.wait(); }
  QKGEOM_HD float sum(float x) const {
    return reduce(x, [](float a, float b) { return a + b; });
  }
  QKGEOM_HD float max(float x) const {
    return reduce(x, [](float a, float b) { return a > b ? a : b; });
  }
  QKGEOM_HD int group() const { return mine_.number() / warp; }
  QKGEOM_HD int groups() const { return threads / warp; }
  QKGEOM_HD warp_team lanes() const { return warp_team(mine_); }

 private:
  /// Reduces x to the same bits in every thread: lanes by halves, then the warps in order.
  template <class F>
  QKGEOM_HD float reduce(float x, const F& f) const {
    for (int step = warp / 2; step > 0; step /= 2) x = f(x, mine_.across(x, step));
    mine_.wait();  // earlier results have been read
    if (mine_.number() % warp == 0) partial_[mine_.number() / warp] = x;
    mine_.wait();
    x = partial_[0];
    for (int w = 1; w < threads / warp; ++w) x = f(x, partial_[w]);
    return x;
  }

  Threads mine_;
  float* partial_;
};

/// A bf16 value that is held as a float, since the products of the CPU read and write floats.
struct wide_bf16 {
  float value = 0;

  operator float() const { return value; }
  static wide_bf16 round(float x) { return {static_cast<float>(bf16::round(x))}; }
};

/// Whether activations of type T (float, bf16 or wide_bf16) are rounded to bf16.
template <class T>
inline constexpr bool rounds_to_bf16 = !std::is_same_v<T, float>;

template <class T>
QKGEOM_HD T to_element(float x) {
  if constexpr (rounds_to_bf16<T>)
    return T::round(x);
  else
    return x;
}

/// Functions of the values that a thread works on; simd_team.hpp specialises them for vector registers.
template <class Value>
struct value_functions;

template <>
struct value_functions<float> {
  template <class T>
  QKGEOM_HD static float rounded(float x) {
    return static_cast<float>(to_element<T>(x));
  }
  QKGEOM_HD static float larger(float a, float b) { return a > b ? a : b; }
  QKGEOM_HD static float exp(float x) { return std::exp(x); }
  QKGEOM_HD static float exp2(float x) { return std::exp2(x); }
  QKGEOM_HD static float tanh(float x) { return std::tanh(x); }
  QKGEOM_HD static float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
  QKGEOM_HD static float gelu(float x) { return 0.5f * x * (1.0f + std::erf(x * 0.70710678118654752f)); }
};

/// Rounds x to activations of type T. The compiler fuses no multiplication before it with an addition after it.
template <class T, class Value>
QKGEOM_HD Value rounded(Value x) {
  return value_functions<Value>::template rounded<T>(x);
}

/// Loads the entry of column c of a row; `store` rounds one to T. `step` is the distance of columns.
template <class T>
QKGEOM_HD float load(const T* row, index_t c, index_t step = 1) {
  return static_cast<float>(row[c * step]);
}
template <class T>
QKGEOM_HD void store(T* row, index_t c, float x, index_t step = 1) {
  row[c * step] = to_element<T>(x);
}
/// Returns x; beyond the last column 0 or `beyond`.
QKGEOM_HD inline float within_row(float x, index_t, [[maybe_unused]] float beyond = 0) { return x; }

template <class Team, class Use>
QKGEOM_HD void for_columns(const Team& team, index_t n, const Use& use) {
  for (index_t c = team.rank(); c < n; c += team.size()) use(c);
}

/// Calls use(c, load(c)) for c < n. A thread loads some of its columns before it uses the first: it waits for memory
/// once, not for each column, since a store might change the next load.
template <class Team, class Load, class Use>
QKGEOM_HD void each_column(const Team& team, index_t n, const Load& load, const Use& use) {
  constexpr int some = 4;
  for (index_t first = team.rank(); first < n; first += some * team.size()) {
    decltype(load(first)) loaded[some];
    QKGEOM_UNROLL
    for (int i = 0; i < some; ++i) loaded[i] = load(first + i * team.size() < n ? first + i * team.size() : first);
    QKGEOM_UNROLL
    for (int i = 0; i < some; ++i)
      if (const index_t c = first + i * team.size(); c < n) use(c, loaded[i]);
  }
}

/// Parameters of a norm; w null: no norm.
struct norm_parameters {
  const float *w = nullptr, *b = nullptr;
  norm_kind kind = norm_kind::llama;
  float eps = 0;
};

/// Calls put(c, y) for c < n, y the norm of x(0) .. x(n - 1), not yet rounded (Zhang and Sennrich 2019;
/// `norm_kind::layer`: Ba et al. 2016). A thread reads an entry before it puts it.
template <class T, class Team, class X, class Put>
QKGEOM_HD void normalise(const Team& team, const norm_parameters& p, index_t n, const X& x, const Put& put) {
  using value = typename Team::value;
  const auto size = static_cast<float>(n);
  float center = 0;
  if (p.kind == norm_kind::layer || p.kind == norm_kind::centred) {
    value sum{};
    for_columns(team, n, [&](auto c) { sum += within_row(x(c), c); });
    center = team.sum(sum) / size;
  }
  value squares{};
  for_columns(team, n, [&](auto c) {
    const value v = within_row(x(c) - center, c);
    squares += v * v;
  });
  const float scale = 1.0f / std::sqrt(team.sum(squares) / size + p.eps),
              more = p.kind == norm_kind::gemma ? 1.0f : 0.0f;
  struct column {
    value x, w;
  };
  each_column(
      team, n,
      [&](auto c) {
        return column{x(c), load(p.w, c)};
      },
      [&](auto c, const column& entry) {
        value y = (entry.x - center) * scale;
        if (p.kind == norm_kind::llama) y = rounded<T>(y);
        if (p.kind == norm_kind::layer)
          put(c, y * entry.w + load(p.b, c));
        else
          put(c, y * (entry.w + more));
      });
}

/// A row of a product plus the bias of its columns, rounded to T.
template <class In, class T>
struct biased_row {
  const In* x;
  const float* bias;  ///< null: no bias

  template <class Column>
  QKGEOM_HD auto operator()(Column c) const {
    const auto v = load(x, c);
    if (bias) return rounded<T>(v + load(bias, c));
    if constexpr (std::is_same_v<In, T>)
      return v;
    else
      return rounded<T>(v);
  }
};

}  // namespace qkgeom::device_kernels
