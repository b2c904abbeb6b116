// SPDX-License-Identifier: MIT
// Tile programs on the emulated device: each block by one thread of the host. Missing barriers show in
// tests/backend/detail/tiles/team_test.cpp.
#pragma once

#include "qkgeom/backend/cuda/resources.cuh"
#include "tests/backend/host_team.hpp"
#include "tests/emulated_cuda/compiled_kernels.hpp"

namespace qkgeom::cuda_kernels {

template <class Program>
void launch_program(const Program& program, index_t blocks, cudaStream_t stream) {
  if (blocks <= 0) return;
  auto& device = emulated::device::the();
  device.give(emulated::of(stream), [&device, program, blocks] {
    if (auto* const compiled = emulated::compiled_kernels::the())
      return compiled->launch("qkgeom::cuda_kernels::run_program", program, blocks, Program::threads,
                              static_cast<std::size_t>(program.shared_bytes()));
    device.each_block(blocks, [&](index_t b) { test::run_block(program, b); });
  });
}

}  // namespace qkgeom::cuda_kernels
