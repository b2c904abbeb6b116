// SPDX-License-Identifier: MIT
// The heavy bodies of the library, compiled once for the programs and tests of this project (see core/config.hpp).
#include "qkgeom/core/detail/thread_pool.hpp"
#include "qkgeom/core/instruction_set.hpp"
#include "qkgeom/geometry/detail/complement_of.hpp"
#include "qkgeom/linalg/detail/needles.hpp"
#include "qkgeom/planted/detail/planted_head.hpp"
#include "qkgeom/plasticity/detail/profile_of.hpp"
#include "qkgeom/rotary/detail/grip.hpp"
#include "qkgeom/stats/detail/interval.hpp"

#if defined(QKGEOM_KERNEL_SETS)
#include "qkgeom/backend/detail/cpu/primitives.hpp"

extern "C" {
const qkgeom::cpu::kernel_set* qkgeom_kernels_v2();
const qkgeom::cpu::kernel_set* qkgeom_kernels_v3();
const qkgeom::cpu::kernel_set* qkgeom_kernels_v4();
const qkgeom::cpu::kernel_set* qkgeom_kernels_v4x();
}

namespace qkgeom {

const cpu::kernel_set& cpu::kernels() {
  static const kernel_set& used = *[] {
    switch (used_instruction_set()) {
      case instruction_set::v4x:
        return qkgeom_kernels_v4x();
      case instruction_set::v4:
        return qkgeom_kernels_v4();
      case instruction_set::v3:
        return qkgeom_kernels_v3();
      default:
        return qkgeom_kernels_v2();
    }
  }();
  return used;
}

eigen_system linalg::symmetric_eigen(const std::vector<double>& matrix, index_t d) {
  return cpu::kernels().symmetric_eigen(matrix, d);
}

semidefinite_root linalg::semidefinite_factor(const std::vector<double>& matrix, index_t d) {
  return cpu::kernels().semidefinite_factor(matrix, d);
}

std::vector<double> linalg::quadratic_rows(const std::vector<double>& m, const std::vector<double>& v, std::size_t d) {
  return cpu::kernels().quadratic_rows(m, v, d);
}

void linalg::row_products(const float* a, index_t n, const float* b, index_t m, index_t d, float* out) {
  cpu::kernels().row_products(a, n, b, m, d, out);
}

linalg::split_scores linalg::split_at(const float* scores, index_t n, float threshold, float weight, float* share) {
  return cpu::kernels().split_at(scores, n, threshold, weight, share);
}

linalg::score_excess linalg::excess_of(const float* scores, index_t n) { return cpu::kernels().excess_of(scores, n); }

}  // namespace qkgeom
#else
#include "qkgeom/backend/detail/cpu/primitive_bodies.hpp"
#include "qkgeom/linalg/detail/products.hpp"
#include "qkgeom/linalg/detail/scores.hpp"
#include "qkgeom/linalg/detail/symmetric.hpp"

const qkgeom::cpu::kernel_set& qkgeom::cpu::kernels() { return kernels_here(); }
#endif
