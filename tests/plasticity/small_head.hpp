// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "qkgeom/core/head.hpp"
#include "qkgeom/core/random.hpp"

namespace qkgeom::test {

/// A head whose rows a test writes out.
struct small_head {
  std::vector<double> q, k;
  std::vector<std::int32_t> tq, eq, tk, ek;
  index_t dim = 2;
  head_view<double> view() const {
    const auto ints = [](const auto& v) {
      return vector_view<const std::int32_t>{v.data(), static_cast<index_t>(v.size())};
    };
    const auto matrix = [&](const auto& v) {
      return matrix_view<const double>{v.data(), static_cast<index_t>(v.size()) / dim, dim, dim};
    };
    return {matrix(q), ints(tq), ints(eq), matrix(k), ints(tk), ints(ek), {}};
  }
};

/// 40 queries of two coordinates, five tokens apart.
inline small_head with_queries() {
  small_head h;
  const random_stream s{.seed = 1};
  for (int i = 0; i < 40; ++i) {
    h.q.push_back(s.uniform(2 * i));
    h.q.push_back(s.uniform(2 * i + 1) - 0.3);
    h.tq.push_back(5 * i);
    h.eq.push_back(0);
  }
  return h;
}

}  // namespace qkgeom::test
