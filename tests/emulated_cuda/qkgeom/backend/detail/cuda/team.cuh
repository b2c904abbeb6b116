// SPDX-License-Identifier: MIT
// Tile programs on the emulated device: each block by one thread of the host. Missing barriers show in
// tests/backend/detail/tiles/tile_team_test.cpp.
#pragma once

#include "qkgeom/backend/cuda/resources.cuh"
#include "tests/backend/host_team.hpp"

namespace qkgeom::cuda_kernels {

template <class Program>
void launch_program(const Program& program, index_t blocks, cudaStream_t stream) {
  if (blocks <= 0) return;
  auto& device = emulated::device::the();
  device.give(emulated::of(stream), [&device, program, blocks] {
    device.each_block(blocks, [&](index_t b) { test::run_block(program, b); });
  });
}

}  // namespace qkgeom::cuda_kernels
