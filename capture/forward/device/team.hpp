// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <type_traits>

#include "capture/model/description.hpp"
#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"

/// What the steps of a forward pass between its products are made of (kernels.hpp and the files of single
/// steps): one source for GPU and host. A row's work is shared by a team: rank() of size() threads, sync(), sum and max
/// over all of them, and groups() of lanes() threads each, a warp. On the host a team is one thread.
namespace qkgeom::device_kernels {

/// The team of the host.
struct one_thread {
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
  static constexpr int threads = Threads::count, warp = 32;

  /// One warp of it.
  class warp_team {
   public:
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

template <class T>
QKGEOM_HD T to_element(float x) {
  if constexpr (std::is_same_v<T, bf16>)
    return bf16::round(x);
  else
    return x;
}
template <class T>
QKGEOM_HD float rounded(float x) {
  return static_cast<float>(to_element<T>(x));
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

/// put(c, y) for c < n, y the norm of x(0) .. x(n - 1), not yet rounded. A thread reads what it puts before it does.
template <class T, class Team, class X, class Put>
QKGEOM_HD void normalise(const Team& team, const norm_parameters& p, index_t n, const X& x, const Put& put) {
  const auto size = static_cast<float>(n);
  float center = 0;
  if (p.kind == norm_kind::layer) {
    float sum = 0;
    for (index_t c = team.rank(); c < n; c += team.size()) sum += x(c);
    center = team.sum(sum) / size;
  }
  float squares = 0;
  for (index_t c = team.rank(); c < n; c += team.size()) squares += (x(c) - center) * (x(c) - center);
  const float scale = 1.0f / std::sqrt(team.sum(squares) / size + p.eps);
  struct column {
    float x, w;
  };
  each_column(
      team, n,
      [&](index_t c) {
        return column{x(c), p.w[c]};
      },
      [&](index_t c, const column& at) {
        float y = (at.x - center) * scale;
        if (p.kind == norm_kind::llama) y = rounded<T>(y);
        y *= at.w + (p.kind == norm_kind::gemma ? 1.0f : 0.0f);
        if (p.kind == norm_kind::layer) y += p.b[c];
        put(c, y);
      });
}

}  // namespace qkgeom::device_kernels
