// SPDX-License-Identifier: MIT
// Components of a planted head through Thrust on the CPU.
#include <thrust/system/omp/execution_policy.h>

#include <vector>

#include "qkgeom/backend/thrust_context.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "qkgeom/stats/moments.hpp"

int main() {
  const std::vector<double> drift_q(8, 0.01), drift_k(8, -0.01);
  const auto rows = qkgeom::plant<float>({.dim = 8, .drift_q = drift_q, .drift_k = drift_k});
  qkgeom::thrust_context ctx(thrust::omp::par);
  const auto found = qkgeom::pca(ctx, qkgeom::accumulate(ctx, rows.view(), qkgeom::uniform_buckets{512}));
  return found.r_q[0] * found.r_k[0] < -0.9 ? 0 : 1;
}
