// SPDX-License-Identifier: MIT
#pragma once

#include <cassert>
#include <cstdint>
#include <functional>

#include "qkgeom/core/config.hpp"

/// A program is the work of one block of a launch, written for a team: the threads of the block, which share memory.
///   static constexpr int threads, blocks_per_processor;
///   index_t shared_bytes() const;  operator()(team, block, shared)
/// A team has
///   each(f): calls f(t) for every thread t;  barrier(): waits for all threads;  each_then_wait(f): both
///   per_thread<T>: a value of each thread
/// and what device_team has. There a thread is a thread of the device and per_thread a register. On the host one thread
/// does the work of all, step by step, so that tests run the programs of the device.
namespace qkgeom::tile {

/// Four floats read at once from a 16-byte aligned address.
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

/// A thread's share of four 8 x 8 matrices of bf16, or of a product's operands: see device_team.
struct fragment {
  std::uint32_t word[4];
};
/// A thread's share of 64 x 32 products: 4 x 4 register tiles of 16 x 8.
struct products {
  float value[4][4][4];
};

/// Eight numbers of a thread; `doubtful` has the bits of the wrong ones.
struct doubtful_row {
  static constexpr int size = 8;
  float value[size];
  unsigned doubtful;
};

/// A thread's addition to the two numbers at `place`; a negative place means no addition.
struct joined {
  long long place;
  unsigned long long sum, weight;
};

/// Adds integers atomically, so that the order of blocks does not matter.
QKGEOM_HD inline void add_to(unsigned long long* to, unsigned long long x) {
#if defined(__CUDA_ARCH__)
  atomicAdd(to, x);
#else
  *to += x;
#endif
}

#if !defined(__CUDA_ARCH__)
/// Replaces *to by x, atomically, if better(x, *to).
template <class Better>
void keep(unsigned long long* to, unsigned long long x, Better better) {
  auto now = __atomic_load_n(to, __ATOMIC_SEQ_CST);  // libc++ has no std::atomic_ref before version 19
  while (better(x, now) && !__atomic_compare_exchange_n(to, &now, x, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
}
#endif

/// Lowers *to to x, atomically; keep_most raises it.
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
