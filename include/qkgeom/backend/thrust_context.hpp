// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "qkgeom/backend/detail/each_matrix.hpp"
#include "qkgeom/backend/detail/thrust/primitives.hpp"
#include "qkgeom/linalg/symmetric.hpp"

namespace qkgeom {

struct thrust_options {
  int threads = 0;  ///< of the host, for d x d work: <= 0: one a core
};

/// Runs every primitive of the library through Thrust's algorithms on any policy, e.g. `thrust_context
/// ctx{thrust::omp::par}`; `Memory` allocates what the policy can reach and copies to and from it. Plain rather than
/// fast: one item a pair tile, differences in place of Gram matrices. Results do not depend on how many threads the
/// policy uses. Not to be shared by threads at the same time.
template <class Policy, class Memory = cpu_memory>
class thrust_context : public thrust_kernels::primitives<Policy, Memory> {
  using base = thrust_kernels::primitives<Policy, Memory>;

 public:
  explicit thrust_context(Policy policy, const thrust_options& options = {}, Memory memory = {})
      : base(std::move(policy), std::move(memory), options.threads) {}

  /// Eigenvalues (descending) and eigenvectors of symmetric (d, d) matrices, on the host.
  std::vector<eigen_system> symmetric_eigen(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return backend::each_matrix(*this, matrices,
                                [d](const std::vector<double>& m) { return linalg::symmetric_eigen(m, d); });
  }

  /// Factors F, F F' = matrix, of symmetric positive semi-definite (d, d) matrices, on the host.
  std::vector<semidefinite_root> cholesky(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return backend::each_matrix(*this, matrices,
                                [d](const std::vector<double>& m) { return linalg::semidefinite_factor(m, d); });
  }
};

}  // namespace qkgeom
