// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <functional>

#include "qkgeom/core/config.hpp"

/// Programs of the tile kernels are written once, for a team of threads: `team.each(f)` calls f(t) for every thread t
/// and then waits for all of them, `team.own(f)` does not wait, `per_thread<T>` is a value that each thread has. On a
/// device a block is a team (`device_team`), its values are registers and waiting is a barrier; on the host one thread
/// does the work of all, step by step, so that tests run the very program that a device runs. A program is a value with
///   static constexpr int threads, blocks_a_processor;
///   index_t shared_bytes() const;  operator()(team, block, shared)
namespace qkgeom::tile {

/// Four floats from a place that is a multiple of 16 bytes, read at once.
struct four_floats {
  float value[4];

  QKGEOM_HD explicit four_floats(const float* from) {
#if defined(__CUDA_ARCH__)
    const float4 x = *reinterpret_cast<const float4*>(from);
    value[0] = x.x, value[1] = x.y, value[2] = x.z, value[3] = x.w;
#else
    assert(reinterpret_cast<std::uintptr_t>(from) % 16 == 0);
    for (int i = 0; i < 4; ++i) value[i] = from[i];
#endif
  }
};

/// Eight rows of eight bf16 of each of four matrices, or what a thread holds of a product's operands: see device_team.
struct fragment {
  std::uint32_t word[4];
};
/// What a thread holds of 64 x 32 products: 4 x 4 tiles of 16 x 8.
struct products {
  float value[4][4][4];
};

/// What a thread adds to two numbers of a place; nothing where that is negative.
struct joined {
  long long place;
  unsigned long long sum, weight;
};

/// Adds to what other blocks add to as well: of integers, so that the order does not matter.
QKGEOM_HD inline void add_to(unsigned long long* to, unsigned long long x) {
#if defined(__CUDA_ARCH__)
  atomicAdd(to, x);
#else
  *to += x;
#endif
}

#if !defined(__CUDA_ARCH__)
/// What an atomic operation of a device does, by a thread of the host.
template <class Better>
void keep(unsigned long long* to, unsigned long long x, Better better) {
  const std::atomic_ref<unsigned long long> at(*to);
  for (auto now = at.load(); better(x, now) && !at.compare_exchange_weak(now, x);) {
  }
}
#endif

/// The smallest of what blocks or threads give; `keep_most` the largest.
QKGEOM_HD inline void keep_least(unsigned long long* to, unsigned long long x) {
#if defined(__CUDA_ARCH__)
  atomicMin(to, x);
#else
  keep(to, x, std::less<>());
#endif
}
QKGEOM_HD inline void keep_most(unsigned long long* to, unsigned long long x) {
#if defined(__CUDA_ARCH__)
  atomicMax(to, x);
#else
  keep(to, x, std::greater<>());
#endif
}

}  // namespace qkgeom::tile
