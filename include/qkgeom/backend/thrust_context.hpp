// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "qkgeom/backend/detail/thrust/primitives.hpp"

namespace qkgeom {

struct thrust_options {
  int threads = 0;  ///< host threads for d x d work; 0 or less: `usable_cores()`
};

/// Runs every primitive through Thrust's algorithms on any policy, e.g. `thrust_context ctx{thrust::omp::par}`.
/// `Memory` (see core/buffer.hpp) allocates memory that the policy can reach. It is plain rather than fast: an item is
/// a tile of pairs, and pairs are computed from differences of keys. Results do not depend on the number of threads.
/// Use a context from one thread at a time. It has the members of cpu_context; views are of `Memory::space`.
template <class Policy, class Memory = cpu_memory>
class thrust_context : public thrust_kernels::primitives<Policy, Memory> {
 public:
  explicit thrust_context(Policy policy, const thrust_options& options = {}, Memory memory = {})
      : thrust_kernels::primitives<Policy, Memory>(std::move(policy), std::move(memory), options.threads) {}
};

}  // namespace qkgeom
