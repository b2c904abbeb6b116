// SPDX-License-Identifier: MIT
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "qkgeom/backend/cuda_resources.cuh"
#include "qkgeom/backend/detail/cuda_tile.cuh"
#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/backend/detail/tile_math.hpp"

/// The fused pair kernel: a Gram tile on the tensor cores, its epilogue in registers. The only file that is slow to
/// compile: with QKGEOM_PRECOMPILED it is compiled once.
namespace qkgeom::cuda_kernels {

namespace tile_detail {

__device__ inline void copy_16(void* to, const void* from, bool there) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = there ? 16 : 0;  // the rest is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes));
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;"); }
template <int Pending>
__device__ inline void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending));
}

__device__ inline void load_four(std::uint32_t (&r)[4], const bf16* row) {
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ inline void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Eight warps as 2 x 4, each 64 x 32 pairs: 4 x 4 products of 16 x 8.
struct warp_place {
  int lane, row, col;
  __device__ warp_place()
      : lane(static_cast<int>(threadIdx.x) % 32),
        row(static_cast<int>(threadIdx.x) / 128 * 64),
        col(static_cast<int>(threadIdx.x) / 32 % 4 * 32) {}
};

/// Rows [first, first + tile_side) and columns [k, k + stage_k) of one operand into shared memory.
__device__ inline void stage_operand(bf16* to, const bf16* from, index_t first, index_t end, int width, int k) {
  for (int piece = static_cast<int>(threadIdx.x); piece < tile_side * (stage_k / 8); piece += tile_threads) {
    const int row = piece / (stage_k / 8), column = piece % (stage_k / 8) * 8;
    const bool there = first + row < end;
    copy_16(to + row * stage_row + column, from + (there ? first + row : first) * width + k + column, there);
  }
}

template <bool Split>
struct stage {
  static constexpr int operands = Split ? 4 : 2;
  bf16* base;
  __device__ bf16* a(int part) const { return base + part * operand_elements; }
  __device__ bf16* b(int part) const { return base + (operands / 2 + part) * operand_elements; }
};

/// g += the products of one stage. Split: high high + high low + low high.
template <bool Split>
__device__ inline void multiply_stage(float (&g)[4][4][4], const stage<Split>& s, const warp_place& me) {
  const int a_row = me.row + me.lane % 16, a_col = me.lane / 16 * 8;
  const int b_row = me.col + me.lane % 8 + me.lane / 16 * 8, b_col = me.lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < stage_k; k += 16) {
    std::uint32_t b[Split ? 2 : 1][2][4];
#pragma unroll
    for (int part = 0; part < (Split ? 2 : 1); ++part)
#pragma unroll
      for (int n = 0; n < 2; ++n) load_four(b[part][n], s.b(part) + (b_row + 16 * n) * stage_row + k + b_col);
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      std::uint32_t a[4], a_low[4];
      load_four(a, s.a(0) + (a_row + 16 * m) * stage_row + k + a_col);
      if constexpr (Split) load_four(a_low, s.a(1) + (a_row + 16 * m) * stage_row + k + a_col);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        multiply(g[m][n], a, b[0][n / 2][n % 2 * 2], b[0][n / 2][n % 2 * 2 + 1]);
        if constexpr (Split) {
          multiply(g[m][n], a, b[1][n / 2][n % 2 * 2], b[1][n / 2][n % 2 * 2 + 1]);
          multiply(g[m][n], a_low, b[0][n / 2][n % 2 * 2], b[0][n / 2][n % 2 * 2 + 1]);
        }
      }
    }
  }
}

/// g = the Gram tile of rows from i0 on and rows from j0 on of one law, through two stages of shared memory.
template <bool Split>
__device__ inline void gram(float (&g)[4][4][4], bf16* shared, const tile_keys& keys, index_t law, index_t i0,
                            index_t j0, index_t end, const warp_place& me) {
  constexpr int parts = Split ? 2 : 1;
  const bf16* const source[2] = {keys.high + law * keys.n * keys.width, keys.low + law * keys.n * keys.width};
  const auto fill = [&](int k, int which) {
    const stage<Split> s{shared + which * stage<Split>::operands * operand_elements};
    for (int p = 0; p < parts; ++p) {
      stage_operand(s.a(p), source[p], i0, end, keys.width, k);
      stage_operand(s.b(p), source[p], j0, end, keys.width, k);
    }
    commit();
  };
  fill(0, 0);
  for (int k = 0, which = 0; k < keys.width; k += stage_k, which ^= 1) {
    if (k + stage_k < keys.width) {
      fill(k + stage_k, which ^ 1);
      wait<1>();
    } else {
      wait<0>();
    }
    __syncthreads();
    multiply_stage<Split>(g, stage<Split>{shared + which * stage<Split>::operands * operand_elements}, me);
    __syncthreads();
  }
}

/// What the epilogue reads of each key of the tile's two sides.
struct tile_side_values {
  float norm[2][tile_side], score[2][tile_side];
  std::int32_t group[2][tile_side];  ///< -1: not there, or not admitted
  std::int32_t position[2][tile_side];
  double sum[tile_side][4];
};

__device__ inline void load_side(tile_side_values& to, int side, const tile_keys& keys, const tile_law& law,
                                 index_t law_number, index_t first, index_t end) {
  for (int r = static_cast<int>(threadIdx.x); r < tile_side; r += tile_threads) {
    const index_t key = first + r;
    const bool there = key < end;
    const std::int32_t t = there ? keys.position[key] : 0;
    to.norm[side][r] = there ? keys.norm[law_number * keys.n + key] : 0.0f;
    to.score[side][r] = there ? keys.score[law_number * keys.n + key] : 0.0f;
    to.group[side][r] = there && t<law.before&& static_cast<double>(t)> law.after ? keys.group[key] : -1;
    to.position[side][r] = t;
  }
}

/// v of a pair whose Gram form has cancelled, from the difference of the operands. Rare, so it stays out of line.
template <bool Split>
static __device__ __noinline__ float from_difference(const tile_keys& keys, index_t law, index_t a, index_t b) {
  const index_t at = (law * keys.n + a) * keys.width, bt = (law * keys.n + b) * keys.width;
  float v = 0;
  for (int c = 0; c < keys.width; ++c) {
    float x = static_cast<float>(keys.high[at + c]) - static_cast<float>(keys.high[bt + c]);
    if constexpr (Split) x += static_cast<float>(keys.low[at + c]) - static_cast<float>(keys.low[bt + c]);
    v += x * x;
  }
  return v;
}

/// Adds a tile's plasticity, which lies in shared memory with -1 where there is no pair, to a heatmap. A thread takes
/// half a row, whose pairs come in runs of one cell, and adds a run at once.
static __device__ __noinline__ void add_heat(const float* plasticity, const tile_side_values& side, double tau,
                                             const tile_heat& to, index_t offset) {
  const int row = static_cast<int>(threadIdx.x) / 2, first = static_cast<int>(threadIdx.x) % 2 * (tile_side / 2);
  index_t cell = -1;
  unsigned long long sum = 0, count = 0;
  const auto flush = [&] {
    if (cell < 0 || count == 0) return;
    atomicAdd(to.sum + offset + cell, sum);
    atomicAdd(to.count + offset + cell, count);
  };
#pragma unroll 1
  for (int c = first; c < first + tile_side / 2; ++c) {
    const float p = plasticity[row * tile_side + c];
    if (p < 0) continue;
    const index_t at = to.cells.cell_of(to.cells.place(side.position[0][row], side.position[1][c]), tau);
    if (at != cell) {
      flush();
      cell = at;
      sum = count = 0;
    }
    sum += static_cast<unsigned long long>(static_cast<double>(p) * heat_unit + 0.5);
    ++count;
  }
  flush();
}

}  // namespace tile_detail

/// Bytes of shared memory: the operands' two stages, and after them a tile's plasticity.
template <bool Split, bool Heat>
constexpr int shared_bytes() {
  constexpr int operands = 2 * tile_detail::stage<Split>::operands * operand_elements * static_cast<int>(sizeof(bf16));
  constexpr int tile = Heat ? tile_side * tile_side * static_cast<int>(sizeof(float)) : 0;
  return operands > tile ? operands : tile;
}

/// One tile a block: plasticity of its pairs, added up by row and tile, and by cell where there is a heatmap.
template <bool Split, bool Heat>
__global__ void __launch_bounds__(tile_threads, 2)
    pair_tiles(tile_keys keys, const tile_law* laws, const tile_span* spans, index_t n_spans, index_t first_tile,
               tile_sums out, tile_heat heat) {
  using namespace tile_detail;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ tile_side_values side;
  const index_t tile = first_tile + blockIdx.x;
  index_t low = 0, high = n_spans;
  while (high - low > 1) {
    const index_t middle = (low + high) / 2;
    (spans[middle].first_tile <= tile ? low : high) = middle;
  }
  const tile_span span = spans[low];
  const tile_law law = laws[span.law];
  const auto [i0, j0] = tile::place_of(span, tile - span.first_tile);
  const index_t end = span.first + span.count;
  load_side(side, 0, keys, law, span.law, i0, end);
  load_side(side, 1, keys, law, span.law, j0, end);
  const warp_place me;
  float g[4][4][4] = {};
  gram<Split>(g, reinterpret_cast<bf16*>(shared), keys, span.law, i0, j0, end, me);

  const int row0 = me.row + me.lane / 4, col0 = me.col + me.lane % 4 * 2;
  float* const plasticity = reinterpret_cast<float*>(shared);  // the operands are no longer needed
#pragma unroll
  for (int m = 0; m < 4; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row0 + 16 * m + 8 * half;
      const float ni = side.norm[0][r], si = side.score[0][r];
      const std::int32_t group = side.group[0][r];
      float sum = 0;
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int c = col0 + 8 * n + e;
          const float both = ni + side.norm[1][c];
          float v = both - 2.0f * g[m][n][2 * half + e];
          const bool pair = group >= 0 && group == side.group[1][c] && i0 + r < j0 + c;
          if (pair && !(v > both * tile::cancelled)) v = from_difference<Split>(keys, span.law, i0 + r, j0 + c);
          v = v > tile::least_v<float> ? v : tile::least_v<float>;
          const float p = tile::plasticity(si - side.score[1][c], v);
          sum += pair ? p : 0.0f;
          if constexpr (Heat) plasticity[r * tile_side + c] = pair ? p : -1.0f;
        }
      double row = sum;
      row += __shfl_xor_sync(0xffffffffu, row, 1);
      row += __shfl_xor_sync(0xffffffffu, row, 2);
      if (me.lane % 4 == 0) side.sum[r][me.col / 32] = row;
    }
  __syncthreads();
  if constexpr (Heat) add_heat(plasticity, side, law.tau, heat, law.problem * heat.cells.width * heat.cells.width);
  const int t = static_cast<int>(threadIdx.x);
  if (t < tile_side) {
    const double row = (side.sum[t][0] + side.sum[t][1]) + (side.sum[t][2] + side.sum[t][3]);
    if (!span.large && i0 + t < end) out.key[span.law * keys.n + i0 + t] = row;
    side.sum[t][0] = row;
  }
  for (int step = tile_side / 2; span.large && step > 0; step /= 2) {
    __syncthreads();
    if (t < step) side.sum[t][0] += side.sum[t + step][0];
  }
  if (span.large && t == 0) out.tile[tile - first_tile] = side.sum[0][0];
}

/// One warp a sum, lane by lane, then by a fixed tree.
static __global__ void add_spans(const sum_span* spans, index_t n, tile_sums from, double* to) {
  const index_t at = (static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (at >= n) return;
  const sum_span s = spans[at];
  const double* const x = s.tiles ? from.tile : from.key;
  double sum = 0;
  for (index_t i = s.begin + lane; i < s.end; i += 32) sum += x[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (lane == 0) to[at] = sum;
}

template <bool Split, bool Heat>
void launch_tiles_as(unsigned blocks, const tile_keys& keys, const tile_law* laws, const tile_span* spans,
                     index_t n_spans, index_t first_tile, const tile_sums& out, const tile_heat& heat,
                     cudaStream_t stream) {
  constexpr int bytes = shared_bytes<Split, Heat>();
  check(cudaFuncSetAttribute(pair_tiles<Split, Heat>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "asking for shared memory");
  pair_tiles<Split, Heat><<<blocks, tile_threads, bytes, stream>>>(keys, laws, spans, n_spans, first_tile, out, heat);
  check(cudaGetLastError(), "the pair kernel");
}

QKGEOM_INLINE void launch_tiles(bool split, bool with_heat, unsigned blocks, const tile_keys& keys,
                                const tile_law* laws, const tile_span* spans, index_t n_spans, index_t first_tile,
                                const tile_sums& out, const tile_heat& heat, cudaStream_t stream) {
  const auto launch = split ? (with_heat ? launch_tiles_as<true, true> : launch_tiles_as<true, false>)
                            : (with_heat ? launch_tiles_as<false, true> : launch_tiles_as<false, false>);
  launch(blocks, keys, laws, spans, n_spans, first_tile, out, heat, stream);
}

QKGEOM_INLINE void launch_sums(const sum_span* spans, index_t n, const tile_sums& from, double* to,
                               cudaStream_t stream) {
  if (n == 0) return;
  add_spans<<<static_cast<unsigned>((n * 32 + 255) / 256), 256, 0, stream>>>(spans, n, from, to);
  check(cudaGetLastError(), "adding the sums of pairs");
}

}  // namespace qkgeom::cuda_kernels
