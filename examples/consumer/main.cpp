// SPDX-License-Identifier: MIT
// A small outside program: queries and keys of a head in Eigen matrices, and the correlation of their first principal
// component with position.
#include <Eigen/Core>
#include <cstdint>
#include <cstdio>

#include "qkgeom/adapt/eigen.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/stats/moments.hpp"

int main() {
  using matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  constexpr Eigen::Index rows = 2000, dim = 16;

  // Noise, and a drift along coordinate 3: queries rise with position, keys fall.
  std::srand(1);
  matrix q = matrix::Random(rows, dim), k = matrix::Random(rows, dim);
  const Eigen::VectorX<std::int32_t> position = Eigen::VectorX<std::int32_t>::LinSpaced(rows, 0, 2 * rows - 2);
  const Eigen::VectorX<std::int32_t> document = Eigen::VectorX<std::int32_t>::Zero(rows);
  q.col(3) += 0.002f * position.cast<float>();
  k.col(3) -= 0.002f * position.cast<float>();

  qkgeom::cpu_context cpu{{.threads = 2}};
  const auto t = qkgeom::as_view(position), e = qkgeom::as_view(document);
  const qkgeom::head_view head{qkgeom::as_view(q), t, e, qkgeom::as_view(k), t, e};
  const auto moments = qkgeom::accumulate(cpu, head, qkgeom::uniform_buckets{512});
  const auto result = qkgeom::pca(cpu, moments);

  std::printf("component 0: %.1f %% of the variance, r_q = %.3f, r_k = %.3f\n", 100 * result.explained_variance[0],
              result.r_q[0], result.r_k[0]);
  return result.r_q[0] * result.r_k[0] < -0.9 ? 0 : 1;
}
