// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "qkgeom/backend/detail/each_matrix.hpp"
#include "qkgeom/backend/detail/thrust/primitives.hpp"
#include "qkgeom/linalg/symmetric.hpp"

namespace qkgeom {

struct thrust_options {
  int threads = 0;  ///< of the host, for d x d work; 0 or less: one per core
};

/// Runs every primitive through Thrust's algorithms on any policy, e.g. `thrust_context ctx{thrust::omp::par}`.
/// `Memory` (see core/buffer.hpp) allocates what the policy can reach. It is plain rather than fast: an item is a tile
/// of pairs, and pairs are taken from differences of keys. Results do not depend on the number of the policy's threads.
/// Use a context from one thread at a time. Members are those of cpu_context; views are of `Memory::space`.
template <class Policy, class Memory = cpu_memory>
class thrust_context : public thrust_kernels::primitives<Policy, Memory> {
  using base = thrust_kernels::primitives<Policy, Memory>;

 public:
  explicit thrust_context(Policy policy, const thrust_options& options = {}, Memory memory = {})
      : base(std::move(policy), std::move(memory), options.threads) {}

  /// See cpu_context::symmetric_eigen; on the host.
  std::vector<eigen_system> symmetric_eigen(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return backend::each_matrix(*this, matrices,
                                [d](const std::vector<double>& m) { return linalg::symmetric_eigen(m, d); });
  }

  /// See cpu_context::cholesky; on the host.
  std::vector<semidefinite_root> cholesky(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return backend::each_matrix(*this, matrices,
                                [d](const std::vector<double>& m) { return linalg::semidefinite_factor(m, d); });
  }
};

}  // namespace qkgeom
