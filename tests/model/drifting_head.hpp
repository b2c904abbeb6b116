// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/planted/planted_head.hpp"

namespace qkgeom::test {

/// A planted head whose queries drift: eps and noise are normal, R^2 follows from drift, length and unit variances.
inline planted_head drifting() {
  planted_head p{.dim = 12, .context_length = 4096, .documents = 8, .rows = 400, .seed = 3};
  p.drift_q.assign(12, 0.0);
  p.drift_q[2] = 1e-3;
  p.drift_q[7] = -5e-4;
  return p;
}

}  // namespace qkgeom::test
