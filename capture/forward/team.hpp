// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <type_traits>

#include "capture/model/description.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"

/// What the row kernels (kernels.hpp and the files of single steps) are written in: one source for GPU and CPU. A team
/// shares the work on a row: rank() of size() threads, sync(), sum and max over all of them, and groups() of lanes()
/// threads each, a warp. A thread works on a `value` at a time: a float, or on the CPU a vector register of them
/// (simd_team.hpp).
namespace qkgeom::device_kernels {

/// A team of one thread that works on one float at a time: a device that the host plays.
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

/// The team of a device: the threads of a block, in warps of 32. `Threads` is one of them and says how it meets the
/// others: number() of `count`, wait() for all, and across(x, step), the x of the lane of its warp whose number differs
/// in that bit.
template <class Threads>
class block_team {
 public:
  using value = float;
  static constexpr int threads = Threads::count, warp = 32;

  /// One warp of it.
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

  /// `partial` holds a float a warp, in memory that the block shares.
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
  /// The same bits in every thread: lanes by halves, then the warps in their order.
  template <class F>
  QKGEOM_HD float reduce(float x, const F& f) const {
    for (int step = warp / 2; step > 0; step /= 2) x = f(x, mine_.across(x, step));
    mine_.wait();  // what was reduced before has been read
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

/// T is the type of activations: float, bf16 or wide_bf16. Whether values are rounded to bf16.
template <class T>
inline constexpr bool rounds_to_bf16 = !std::is_same_v<T, float>;

template <class T>
QKGEOM_HD T to_element(float x) {
  if constexpr (rounds_to_bf16<T>)
    return T::round(x);
  else
    return x;
}

/// What a kernel asks of the values that a thread works on. simd_team.hpp has those of vector registers.
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

/// x as a model whose activations are T has it. No multiplication before it is joined with an addition after it.
template <class T, class Value>
QKGEOM_HD Value rounded(Value x) {
  return value_functions<Value>::template rounded<T>(x);
}

/// The entry of column c of a row, and where it goes, rounded to T. Every `step`-th column of the row counts.
template <class T>
QKGEOM_HD float load(const T* row, index_t c, index_t step = 1) {
  return static_cast<float>(row[c * step]);
}
template <class T>
QKGEOM_HD void store(T* row, index_t c, float x, index_t step = 1) {
  row[c * step] = to_element<T>(x);
}
/// x, but 0 or `beyond` beyond the last column.
QKGEOM_HD inline float within_row(float x, index_t, [[maybe_unused]] float beyond = 0) { return x; }

/// use(c) for c < n.
template <class Team, class Use>
QKGEOM_HD void for_columns(const Team& team, index_t n, const Use& use) {
  for (index_t c = team.rank(); c < n; c += team.size()) use(c);
}

/// use(c, load(c)) for c < n. A thread loads some of its columns before it uses the first: it waits for memory once,
/// not for each column, since what it stores might be what it loads next.
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

/// A norm; without weights there is none.
struct norm_parameters {
  const float *w = nullptr, *b = nullptr;
  norm_kind kind = norm_kind::llama;
  float eps = 0;
};

/// put(c, y) for c < n, y the norm of x(0) .. x(n - 1), not yet rounded (Zhang and Sennrich 2019; `norm_kind::layer`:
/// Ba et al. 2016). A thread reads what it puts before it does.
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

/// A row of a product and the bias of its columns, rounded: x(c) of column c.
template <class In, class T>
struct biased_row {
  const In* x;
  const float* bias;  ///< or none

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
