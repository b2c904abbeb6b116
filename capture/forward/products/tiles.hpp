// SPDX-License-Identifier: MIT
#pragma once

// Products of bf16 tiles of 16 rows x 64 bytes, summed in f32: by AMX, or by AVX-512's products of pairs. Functions
// with QKGEOM_TILE_TARGET exist in portable builds too; they may be called only where `tiles_available()`.
#if defined(__x86_64__) && defined(__linux__)
#define QKGEOM_HAS_TILES 1
#define QKGEOM_TILE_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")))
// g++ 12 warns about the undefined vectors of these headers.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#else
#include <immintrin.h>
#endif
#endif

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace qkgeom {

/// Multiplier of bf16 tiles: none, AVX-512's products of pairs (Zen 4, Cooper Lake), or AMX (Sapphire Rapids).
enum class tile_unit { none, avx512, amx };

/// Returns the fastest unit that the CPU has and the system lets this process use; asks once.
tile_unit best_tile_unit();
inline bool tiles_available() { return best_tile_unit() != tile_unit::none; }

namespace tiles {

/// Allocates memory that starts at a cache line: rows of tiles that cross lines cost twice.
template <class T>
struct line_allocator {
  using value_type = T;
  line_allocator() = default;
  template <class U>
  line_allocator(const line_allocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* p, std::size_t) { ::operator delete (p, std::align_val_t{64}); }
  friend bool operator==(const line_allocator&, const line_allocator&) = default;
};
template <class T>
using line_vector = std::vector<T, line_allocator<T>>;

#if defined(QKGEOM_HAS_TILES)
inline constexpr int tile = 16;      ///< rows of a tile, and f32 columns
inline constexpr int channels = 32;  ///< bf16 in a row of a tile: terms that one product instruction sums

/// Configuration of the eight tile registers, each 16 rows x 64 bytes.
struct alignas(64) tile_shapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// Starts the use of tiles by this thread; the next call ends it.
QKGEOM_TILE_TARGET inline void begin(tile_unit unit, const tile_shapes& shapes) {
  if (unit != tile_unit::amx) return;
  __asm__ volatile("" ::"m"(shapes));
  _tile_loadconfig(&shapes);
}
QKGEOM_TILE_TARGET inline void end(tile_unit unit) {
  if (unit == tile_unit::amx) _tile_release();
}

/// Completes the stores before it: the compiler does not know that tile loads read memory.
inline void stores_are_done() { __asm__ volatile("" ::: "memory"); }
#endif

}  // namespace tiles

}  // namespace qkgeom
