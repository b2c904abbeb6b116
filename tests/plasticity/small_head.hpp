// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/random.hpp"
#include "qkgeom/planted/heads.hpp"

namespace qkgeom::test {

/// 40 queries of two coordinates, five tokens apart; a test writes the keys.
inline planted_rows<double> with_queries() {
  planted_rows<double> h;
  h.dim = 2;
  const random_stream s{.seed = 1};
  for (int i = 0; i < 40; ++i) {
    h.q.insert(h.q.end(), {s.uniform(2 * i), s.uniform(2 * i + 1) - 0.3});
    h.q_position.push_back(5 * i);
    h.q_document.push_back(0);
  }
  return h;
}

}  // namespace qkgeom::test
