// SPDX-License-Identifier: MIT
// A machine of the host that runs kernels of PTX as a GPU may: warps in lockstep where their threads go the same way,
// tensor cores and special functions as far off as they may be. It refuses what a GPU would answer with an error or
// with whatever comes first: addresses beyond an allocation, misaligned ones, races, barriers that some threads miss.
#pragma once

#include <functional>
#include <utility>

#include "qkgeom/core/config.hpp"
#include "tests/emulated_cuda/ptx/program.hpp"

namespace qkgeom::ptx {

struct grid {
  index_t blocks = 1;
  int threads = warp_lanes;  // of a block
  std::size_t dynamic_shared_bytes = 0;
  const void* parameters = nullptr;  // as many bytes as the kernel takes
  bool last_block_first = false;
};

/// First byte of the allocation that holds an address and the one behind its last, or two nulls.
using allocation = std::pair<const char*, const char*>;
using find_allocation = std::function<allocation(const void*)>;

/// Runs a launch. Throws `error` which names the kernel, the line, the instruction, the block, the thread and the
/// matter.
void run(const kernel& k, const grid& g, const find_allocation& global);

}  // namespace qkgeom::ptx
