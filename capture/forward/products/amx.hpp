// SPDX-License-Identifier: MIT
#pragma once

// AMX: eight tile registers of 16 rows x 64 bytes, and products of bf16 tiles summed in f32. Functions that use it
// carry QKGEOM_AMX_TARGET, so that a portable build has them too; they may be called only where `amx_available()`.
#if defined(__x86_64__) && defined(__linux__)
#define QKGEOM_HAS_AMX 1
#define QKGEOM_AMX_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")))
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace qkgeom {

/// Whether the CPU has AMX with bf16 products and AVX-512 with bf16 conversions, and the system lets this process use
/// them. Asks once.
bool amx_available();

namespace amx {

/// Memory that starts at a cache line: rows of tiles that cross lines cost twice.
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

#if defined(QKGEOM_HAS_AMX)
inline constexpr int tile = 16;      ///< rows of a tile, and f32 columns
inline constexpr int channels = 32;  ///< bf16 in a row of a tile: terms that one product instruction sums

/// All eight tiles have 16 rows x 64 bytes.
struct alignas(64) tile_shapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// Between these two calls a thread may use its tiles.
QKGEOM_AMX_TARGET inline void begin(const tile_shapes& shapes) {
  __asm__ volatile("" ::"m"(shapes));
  _tile_loadconfig(&shapes);
}
QKGEOM_AMX_TARGET inline void end() { _tile_release(); }

/// The compiler does not know that tile loads read memory: stores before this call are done before them.
inline void stores_are_done() { __asm__ volatile("" ::: "memory"); }
#endif

}  // namespace amx

}  // namespace qkgeom
