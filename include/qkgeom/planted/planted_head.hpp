// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {

/// A synthetic head: independent rows x = mean + drift (t - centre) + N(0, covariance) on each side, with positions
/// uniform over the context. Every estimate of the analyses has a closed form in these numbers.
struct planted_head {
  index_t dim = 32;
  index_t context_length = 8192;  ///< tokens
  index_t documents = 16;
  index_t rows = 256;  ///< per document and side
  std::uint64_t seed = 0;
  std::vector<double> mean_q{}, mean_k{};    ///< (d) at the middle of the context; empty: 0
  std::vector<double> drift_q{}, drift_k{};  ///< (d) per token; empty: 0
  std::vector<double> root_q{}, root_k{};    ///< (d, d) factor of the covariance; empty: identity
};

/// Rows of a planted head; they own what `view()` points to.
template <class T>
struct planted_rows {
  index_t dim = 0;
  std::vector<T> q, k;  ///< (rows, d)
  std::vector<std::int32_t> q_position, q_document, k_position, k_document;

  head_view<T> view() const&& = delete;
  head_view<T> view() const& {
    const auto rows = [&](const std::vector<T>& x) {
      return matrix_view<const T>{x.data(), static_cast<index_t>(x.size()) / dim, dim, dim};
    };
    const auto ints = [](const std::vector<std::int32_t>& x) {
      return vector_view<const std::int32_t>{x.data(), static_cast<index_t>(x.size())};
    };
    return {rows(q), ints(q_position), ints(q_document), rows(k), ints(k_position), ints(k_document), {}};
  }
};

namespace detail {
QKGEOM_INLINE planted_rows<double> planted_in_f64(const planted_head& head);
}

/// Draws the rows of a planted head. A seed gives the same rows on every machine up to the rounding of log and cos.
/// Throws if a number is out of range or a vector has the wrong size.
template <class T = double>
planted_rows<T> plant(const planted_head& head) {
  auto rows = detail::planted_in_f64(head);
  const auto rounded = [](const std::vector<double>& x) {
    std::vector<T> y(x.size());
    std::transform(x.begin(), x.end(), y.begin(), round_to<T>);
    return y;
  };
  return {rows.dim,
          rounded(rows.q),
          rounded(rows.k),
          std::move(rows.q_position),
          std::move(rows.q_document),
          std::move(rows.k_position),
          std::move(rows.k_document)};
}

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/planted/detail/planted_head.hpp"
#endif
