// SPDX-License-Identifier: MIT
// Kernels of the forward pass on the emulated device: each block by one thread of the host. Missing barriers show in
// tests/capture/forward/device/block_team_test.cpp.
#pragma once

#include "capture/forward/team.hpp"
#include "qkgeom/backend/cuda/resources.cuh"

namespace qkgeom {

template <class Kernel>
void launch_rows(index_t n, const Kernel& kernel, cudaStream_t stream) {
  auto& device = emulated::device::the();
  device.give(emulated::of(stream), [&device, kernel, n] {
    device.each_block(n, [&](index_t i) { kernel(device_kernels::one_thread{}, i); });
  });
}

}  // namespace qkgeom
