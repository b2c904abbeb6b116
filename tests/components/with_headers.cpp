// SPDX-License-Identifier: MIT
// The three analyses of a planted head, by headers alone, beside what was planted.
#include <cmath>
#include <cstdio>
#include <vector>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "qkgeom/plasticity/summary.hpp"

int main() {
  const std::vector<double> mean_q(16, 0.25), drift_q(16, 5e-5), drift_k(16, 1e-4);
  const auto rows = qkgeom::plant<float>({.dim = 16, .mean_q = mean_q, .drift_q = drift_q, .drift_k = drift_k});
  qkgeom::cpu_context cpu{{.threads = 2}};
  const auto moments = qkgeom::accumulate(cpu, rows.view(), qkgeom::uniform_buckets{512});
  const auto components = qkgeom::pca(cpu, moments);
  const auto plane = qkgeom::planar_rotation(cpu, moments);
  const auto model = qkgeom::fit_queries(cpu, moments, {.covariance = qkgeom::covariance_kind::joint});
  const auto ap = qkgeom::summarize(qkgeom::plasticity_profile(cpu, model, rows.view()), 8192);
  std::printf("r_k %.3f, bias strength %.2e, plasticity %.3f\n", components.r_k[0], plane.bias.strength,
              ap.overall.value);
  // Keys of unit variance move by 4e-4 a token along the drift axis, where queries have the mean 1.
  const bool found = std::abs(plane.bias.strength - 4e-4) < 4e-5 && std::abs(components.r_k[0] - 0.687) < 0.03;
  return found && ap.overall.value > 0.9 && ap.overall.value < 1 ? 0 : 1;
}
