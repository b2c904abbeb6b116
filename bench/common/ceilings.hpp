// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

namespace qkgeom::bench {

/// GEMM rates of one implementation, FLOP/s.
struct gemm_rate {
  std::string name;  ///< "Eigen", or OpenBLAS with the kernels it used
  double sgemm = 0, dgemm = 0;
};

/// Measured rates of the machine, with which those of our kernels are compared.
struct ceilings {
  int threads = 1;
  std::vector<gemm_rate> gemm;  ///< Eigen, and OpenBLAS with every kernel set this CPU can run
  double copy = 0;  ///< bytes read plus bytes written per second, in blocks far larger than the second-level cache

  double best_sgemm() const;
  double best_dgemm() const;
  /// Pairs of keys per second that the best sgemm allows, at 2 d FLOP per pair.
  double pair_rate(double d) const { return best_sgemm() / (2 * d); }
  double pair_rate_f64(double d) const { return best_dgemm() / (2 * d); }
};

/// Measured at the first call for a number of threads (a few seconds), then remembered.
const ceilings& measured_ceilings(int threads);

}  // namespace qkgeom::bench
