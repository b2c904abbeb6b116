// SPDX-License-Identifier: MIT
// Runs tile programs (backend/detail/tiles/tile_team.hpp) on the host: each step by one thread for all threads of the
// block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "qkgeom/backend/detail/tiles/tile_team.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom::test {

/// Throws `error` where a device would fault: at an address that is no multiple of the `bytes` read at once.
inline void expect_aligned(const void* p, std::size_t bytes) {
  require(reinterpret_cast<std::uintptr_t>(p) % bytes == 0, "an access of ", bytes, " bytes at a misaligned address");
}

/// A team of 256 threads in one. A step ends for all threads before the next begins, so barriers and waits do nothing.
struct host_team {
  static constexpr int threads = 256;
  template <class T>
  struct per_thread {
    std::vector<T> values = std::vector<T>(threads);
    T& operator[](int t) { return values[t]; }
    const T& operator[](int t) const { return values[t]; }
  };

  template <class F>
  void each(const F& f) const {
    for (int t = 0; t < threads; ++t) f(t);
  }
  template <class F>
  void each_then_wait(const F& f) const {
    each(f);
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
  /// In each warp, words 0 and 1 of a (16, 16) hold rows r and r + 8, words 2 and 3 the same of columns 8 and on.
  void multiply(per_thread<tile::products>& g, int m, int n, const per_thread<tile::fragment>& a,
                const per_thread<tile::fragment>& b, int half) const {
    using columns = float __attribute__((vector_size(4 * sizeof(float))));
    const auto value = [](std::uint32_t half_word) {
      return static_cast<float>(bf16{static_cast<std::uint16_t>(half_word)});
    };
    for (int w = 0; w < threads; w += 32) {
      float x[16][16];
      columns y[16][2], sum[16][2];
      for (int t = 0; t < 32; ++t) {
        const int row = t / 4, first = t % 4 * 2;
        for (int term = 0; term < 4; ++term) {
          float* const to = &x[row + term % 2 * 8][first + term / 2 * 8];
          const std::uint32_t word = a[w + t].word[term];
          to[0] = value(word), to[1] = value(word >> 16);
        }
        for (int term = 0; term < 2; ++term) {
          columns(*const to)[2] = &y[first + term * 8];
          const std::uint32_t word = b[w + t].word[2 * half + term];
          to[0][row / 4][row % 4] = value(word), to[1][row / 4][row % 4] = value(word >> 16);
        }
      }
      for (int row = 0; row < 16; ++row) {
        columns left = {}, right = {};
        for (int k = 0; k < 16; ++k) left += x[row][k] * y[k][0], right += x[row][k] * y[k][1];
        sum[row][0] = left, sum[row][1] = right;
      }
      for (int t = 0; t < 32; ++t) {
        const int row = t / 4, column = t % 4 * 2;
        for (int term = 0; term < 4; ++term)
          g[w + t].value[m][n][term] += sum[row + term / 2 * 8][column / 4][column % 4 + term % 2];
      }
    }
  }

  template <class Add>
  void join_lanes(per_thread<tile::joined>& of, const Add& add) const {
    each([&](int t) {
      if (of[t].place >= 0) add(of[t]);
    });
  }

  template <class Part>
  void replace_doubtful(per_thread<tile::doubtful_row>& x, const Part& part) const {
    for (int t = 0; t < threads; ++t)
      for (int i = 0; i < tile::doubtful_row::size; ++i) {
        if ((x[t].doubtful >> i & 1) == 0) continue;
        float sum[32];
        for (int lane = 0; lane < 32; ++lane) sum[lane] = part(t, i, lane);
        for (int step = 16; step > 0; step /= 2)
          for (int lane = 0; lane < step; ++lane) sum[lane] += sum[lane + step];
        x[t].value[i] = sum[0];
      }
  }

  template <int Width, class T>
  void sum_lanes(per_thread<T>& x) const {
    for (int step = Width / 2; step > 0; step /= 2) {
      const auto before = x.values;
      for (int t = 0; t < threads; ++t) x.values[t] += before[t ^ step];
    }
  }
};

/// Calls run(shared) with a block's shared memory, which holds NaN.
template <class Program, class Run>
void with_shared_memory(const Program& program, const Run& run) {
  static_assert(Program::threads == host_team::threads);
  using line = std::array<std::uint64_t, 2>;  // so that shared memory is as aligned as a device's
  std::vector<line> shared(static_cast<std::size_t>(program.shared_bytes()) / sizeof(line) + 1,
                           line{0xffffffffffffffff, 0xffffffffffffffff});
  run(reinterpret_cast<unsigned char*>(shared.data()));
}

/// Runs one block of a launch.
template <class Program>
void run_block(const Program& program, index_t block) {
  with_shared_memory(program, [&](unsigned char* shared) { program(host_team{}, block, shared); });
}

}  // namespace qkgeom::test
