// SPDX-License-Identifier: MIT
// Runs programs of tiles (backend/detail/tiles/team.hpp) on the host, and the fused pair sums with them: what a device
// does, step by step, one thread after the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "qkgeom/backend/detail/tiles/team.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom::test {

/// Throws `error` where a device would fault: at an address that is no multiple of the bytes it moves at once.
inline void expect_aligned(const void* p, std::size_t bytes) {
  require(reinterpret_cast<std::uintptr_t>(p) % bytes == 0, "an access of ", bytes, " bytes at a misaligned address");
}

/// A team of 256 threads in one. A barrier holds since each step is done for all threads before the next begins; copies
/// that do not wait are done at once.
struct host_team {
  static constexpr int threads = 256;
  template <class T>
  struct per_thread {
    std::vector<T> values = std::vector<T>(threads);
    T& operator[](int t) { return values[t]; }
    const T& operator[](int t) const { return values[t]; }
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
    expect_aligned(to, Bytes), expect_aligned(from, Bytes);
    if (there)
      std::memcpy(to, from, Bytes);
    else
      std::memset(to, 0, Bytes);
  }
  void commit() const {}
  template <int Pending>
  void wait() const {}

  template <class Row>
  void load_matrices(per_thread<tile::fragment>& x, const Row& row) const {
    for (int t = 0; t < threads; ++t)
      for (int m = 0; m < 4; ++m) {
        const auto* const from = row(t / 32 * 32 + 8 * m + t % 32 / 4);
        expect_aligned(from, 16);
        std::memcpy(&x[t].word[m], from + t % 4 * 2, sizeof(std::uint32_t));
      }
  }
  /// Of warp `w`: a (16, 16) from words 0 and 1 of rows r and r + 8, words 2 and 3 of the columns from 8 on.
  void multiply(per_thread<tile::products>& g, int m, int n, const per_thread<tile::fragment>& a,
                const per_thread<tile::fragment>& b, int half) const {
    const auto value = [](std::uint32_t word, int k) {
      return static_cast<float>(bf16{static_cast<std::uint16_t>(k == 0 ? word : word >> 16)});
    };
    for (int w = 0; w < threads; w += 32) {
      float x[16][16], y[8][16];
      for (int t = 0; t < 32; ++t)
        for (int k = 0; k < 2; ++k) {
          const int row = t / 4, column = t % 4 * 2 + k;
          for (int term = 0; term < 4; ++term)
            x[row + term % 2 * 8][column + term / 2 * 8] = value(a[w + t].word[term], k);
          for (int term = 0; term < 2; ++term) y[row][column + term * 8] = value(b[w + t].word[2 * half + term], k);
        }
      for (int t = 0; t < 32; ++t)
        for (int term = 0; term < 4; ++term) {
          const int row = t / 4 + term / 2 * 8, column = t % 4 * 2 + term % 2;
          float sum = 0;
          for (int k = 0; k < 16; ++k) sum += x[row][k] * y[column][k];
          g[w + t].value[m][n][term] += sum;
        }
    }
  }

  template <class Add>
  void join_lanes(per_thread<tile::joined>& of, const Add& add) const {
    own([&](int t) {
      if (of[t].place >= 0) add(of[t]);
    });
  }

  template <int Width, class T>
  void sum_lanes(per_thread<T>& x) const {
    for (int step = Width / 2; step > 0; step /= 2) {
      const auto before = x.values;
      for (std::size_t t = 0; t < threads; ++t) x.values[t] += before[t ^ static_cast<std::size_t>(step)];
    }
  }
};

/// run(shared) with the shared memory of a block, which nobody has set.
template <class Program, class Run>
void with_shared_memory(const Program& program, const Run& run) {
  static_assert(Program::threads == host_team::threads);
  using line = std::array<std::uint64_t, 2>;  // so that shared memory is as aligned as a device's
  std::vector<line> shared(static_cast<std::size_t>(program.shared_bytes()) / sizeof(line) + 1,
                           line{0xffffffffffffffff, 0xffffffffffffffff});
  run(reinterpret_cast<unsigned char*>(shared.data()));
}

/// A block of a launch.
template <class Program>
void run_block(const Program& program, index_t block) {
  with_shared_memory(program, [&](unsigned char* shared) { program(host_team{}, block, shared); });
}

}  // namespace qkgeom::test
