// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "qkgeom/core/random.hpp"
#include "qkgeom/planted/planted_head.hpp"

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

inline void add_key(planted_rows<double>& h, double x, double y, std::int32_t position, std::int32_t document = 0) {
  h.k.insert(h.k.end(), {x, y});
  h.k_position.push_back(position);
  h.k_document.push_back(document);
}

/// Scores that lie close together, so that f32 orders some of them wrongly: of tenths, whose sums that would be equal
/// differ by their rounding to f32.
inline void bring_scores_close(planted_rows<float>& rows) {
  const random_stream draws{.seed = 5};
  for (std::size_t i = 0; i < rows.q.size(); ++i) {
    rows.q[i] = 0.1f * static_cast<float>(1 + draws.below(i, 7));
    rows.k[i] = 0.1f * static_cast<float>(draws.below((std::uint64_t{1} << 32) + i, 8));
  }
}

/// Calls each(scaled, q, k) with queries times 2^q and keys times 2^k, which changes no order of scores.
template <class T, class Each>
void for_each_scaling(const planted_rows<T>& rows, const Each& each) {
  const int most = std::is_same_v<T, double> ? 230 : 100;
  for (const int q : {-most, 0, most})
    for (const int k : {-most, 0, most}) {
      auto scaled = rows;
      for (T& x : scaled.q) x = round_to<T>(std::ldexp(static_cast<double>(x), q));
      for (T& x : scaled.k) x = round_to<T>(std::ldexp(static_cast<double>(x), k));
      each(scaled, q, k);
    }
}

}  // namespace qkgeom::test
