// SPDX-License-Identifier: MIT
// Runs programs of tiles (backend/detail/tile_team.hpp) on the host, and the fused pair sums with them: what a device
// does, step by step, one thread after the other.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom::test {

/// A team of 256 threads in one. A barrier holds since each step is done for all threads before the next begins; copies
/// that do not wait are done at once.
struct host_team {
  static constexpr int threads = 256;
  template <class T>
  struct per_thread {
    std::vector<T> values = std::vector<T>(threads);
    T& operator[](int t) { return values[static_cast<std::size_t>(t)]; }
    const T& operator[](int t) const { return values[static_cast<std::size_t>(t)]; }
  };

  template <class F>
  void own(const F& f) const {
    for (int t = 0; t < threads; ++t) f(t);
  }
  template <class F>
  void each(const F& f) const {
    own(f);
  }
  void barrier() const {}

  template <int Bytes>
  void copy(void* to, const void* from, bool there) const {
    if (there)
      std::memcpy(to, from, Bytes);
    else
      std::memset(to, 0, Bytes);
  }
  void commit() const {}
  template <int Pending>
  void wait() const {}

  template <int Width, class T>
  void sum_lanes(per_thread<T>& x) const {
    for (int step = Width / 2; step > 0; step /= 2) {
      const auto before = x.values;
      for (std::size_t t = 0; t < threads; ++t) x.values[t] += before[t ^ static_cast<std::size_t>(step)];
    }
  }
};

}  // namespace qkgeom::test
