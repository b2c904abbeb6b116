// SPDX-License-Identifier: MIT
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "qkgeom/backend/cuda/resources.cuh"
#include "qkgeom/backend/detail/tiles/tile_team.hpp"

namespace qkgeom::cuda_kernels {

/// The threads of a block as the team of a program (tiles/tile_team.hpp).
struct device_team {
  template <class T>
  struct per_thread {
    T value;
    QKGEOM_HD T& operator[](int) { return value; }
    QKGEOM_HD const T& operator[](int) const { return value; }
  };

  template <class F>
  QKGEOM_HD void each(const F& f) const {
#if defined(__CUDA_ARCH__)
    f(static_cast<int>(threadIdx.x));
#endif
  }
  QKGEOM_HD void barrier() const {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }
  template <class F>
  QKGEOM_HD void each_then_wait(const F& f) const {
    each(f);
    barrier();
  }

  /// Starts a copy of `Bytes` (4 or 16) into shared memory; copies zeros unless `there`.
  template <int Bytes>
  QKGEOM_HD void copy([[maybe_unused]] void* to, [[maybe_unused]] const void* from, [[maybe_unused]] bool there) const {
#if defined(__CUDA_ARCH__)
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int bytes = there ? Bytes : 0;
    if constexpr (Bytes == 16)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes));
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(bytes));
#endif
  }
  /// Ends a batch of copies. `wait` waits for all but the thread's last `Pending` batches.
  QKGEOM_HD void commit() const {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.commit_group;");
#endif
  }
  template <int Pending>
  QKGEOM_HD void wait() const {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending));
#endif
  }

  /// Loads four 8 x 8 matrices of bf16 per warp (ldmatrix). Lane l passes the address of row l % 8 of matrix l / 8. As
  /// word m it gets columns l % 4 * 2 and the next of row l / 4 of matrix m.
  template <class Row>
  QKGEOM_HD void load_matrices([[maybe_unused]] per_thread<tile::fragment>& x, [[maybe_unused]] const Row& row) const {
#if defined(__CUDA_ARCH__)
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row(static_cast<int>(threadIdx.x))));
    auto& w = x.value.word;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(address));
#endif
  }
  /// Adds a (16 x 16) b (8 x 16)' to register tile (m, n) of g (mma); b is words 2 half and 2 half + 1.
  QKGEOM_HD void multiply([[maybe_unused]] per_thread<tile::products>& g, [[maybe_unused]] int m,
                          [[maybe_unused]] int n, [[maybe_unused]] const per_thread<tile::fragment>& a,
                          [[maybe_unused]] const per_thread<tile::fragment>& b, [[maybe_unused]] int half) const {
#if defined(__CUDA_ARCH__)
    auto& c = g.value.value[m][n];
    const auto& w = a.value.word;
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "r"(b.value.word[2 * half]), "r"(b.value.word[2 * half + 1]));
#endif
  }

  /// Sets each thread's x to the sum over its run of Width lanes, added by halves.
  template <int Width, class T>
  QKGEOM_HD void sum_lanes([[maybe_unused]] per_thread<T>& x) const {
#if defined(__CUDA_ARCH__)
    QKGEOM_UNROLL
    for (int step = Width / 2; step > 0; step /= 2) x.value += __shfl_xor_sync(0xffffffffu, x.value, step);
#endif
  }

  /// Replaces each doubtful number i of thread t by the sum over the lanes of part(t, i, lane). All lanes of a warp
  /// work on one number at a time, so that a rare doubtful one does not keep the warp waiting for a single thread.
  template <class Part>
  QKGEOM_HD void replace_doubtful([[maybe_unused]] per_thread<tile::doubtful_row>& x,
                                  [[maybe_unused]] const Part& part) const {
#if defined(__CUDA_ARCH__)
    if (__all_sync(0xffffffffu, x.value.doubtful == 0)) return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    QKGEOM_ROLLED
    for (int i = 0; i < tile::doubtful_row::size; ++i) {
      unsigned owners = __ballot_sync(0xffffffffu, x.value.doubtful >> i & 1);
      while (owners != 0) {
        const int owner = 31 - __clz(static_cast<int>(owners));
        owners ^= 1u << owner;
        per_thread<float> sum{part(static_cast<int>(threadIdx.x) - lane + owner, i, lane)};
        sum_lanes<32>(sum);
        QKGEOM_UNROLL
        for (int j = 0; j < tile::doubtful_row::size; ++j)  // by comparisons, so that the numbers stay in registers
          if (lane == owner && j == i) x.value.value[j] = sum.value;
      }
    }
#endif
  }

  /// Calls add(x) for each thread's x; once per warp if all lanes have the same place.
  template <class Add>
  QKGEOM_HD void join_lanes([[maybe_unused]] const per_thread<tile::joined>& values,
                            [[maybe_unused]] const Add& add) const {
#if defined(__CUDA_ARCH__)
    tile::joined x = values.value;
    const bool one_place = __all_sync(0xffffffffu, x.place == __shfl_sync(0xffffffffu, x.place, 0));
    if (one_place) {
      QKGEOM_UNROLL
      for (int step = 16; step > 0; step /= 2) {
        x.sum += __shfl_xor_sync(0xffffffffu, x.sum, step);
        x.weight += __shfl_xor_sync(0xffffffffu, x.weight, step);
      }
    }
    if (x.place >= 0 && (!one_place || threadIdx.x % 32 == 0)) add(x);
#endif
  }
};

template <class Program>
__global__ void __launch_bounds__(Program::threads, Program::blocks_per_processor) run_program(Program program) {
  extern __shared__ __align__(16) unsigned char shared[];
  const device_team team;
  program(team, static_cast<index_t>(blockIdx.x), shared);
}

/// Launches `blocks` blocks of a program on a stream.
template <class Program>
void launch_program(const Program& program, index_t blocks, cudaStream_t stream) {
  if (blocks <= 0) return;
  const auto bytes = static_cast<int>(program.shared_bytes());
  check(cudaFuncSetAttribute(run_program<Program>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "asking for shared memory");
  check(cudaFuncSetAttribute(run_program<Program>, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "asking for shared memory");
  run_program<Program>
      <<<static_cast<unsigned>(blocks), Program::threads, static_cast<std::size_t>(bytes), stream>>>(program);
  check(cudaGetLastError(), "a kernel of pairs of keys");
}

}  // namespace qkgeom::cuda_kernels
