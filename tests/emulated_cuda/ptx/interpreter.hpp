// SPDX-License-Identifier: MIT
// Runs kernels of PTX on the host as a GPU may: warps in lockstep where their threads take the same branch, tensor
// cores and special functions with the largest error that the ISA allows. It refuses addresses beyond an allocation,
// misaligned ones, races, and barriers that some threads miss.
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
  const void* parameters = nullptr;  // kernel::parameter_bytes of them
  bool last_block_first = false;
};

/// Begin and end of the allocation that holds an address, or two nulls.
using allocation = std::pair<const char*, const char*>;
using find_allocation = std::function<allocation(const void*)>;

/// Runs a launch. Where it refuses, it throws `error` that names kernel, line, instruction, block, thread and reason.
void run(const kernel& k, const grid& g, const find_allocation& global);

}  // namespace qkgeom::ptx
