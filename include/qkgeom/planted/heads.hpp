// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/model/householder.hpp"

namespace qkgeom {

/// A synthetic head with known answers: x = mean + drift (t - centre) + N(0, covariance) on each side, positions
/// uniform over the context, independent rows. Everything the analyses estimate follows from these numbers in closed
/// form.
struct planted_head {
  index_t dim = 32;
  index_t context_length = 8192;  ///< tokens
  index_t documents = 16;
  index_t rows = 256;  ///< a document and side
  std::uint64_t seed = 0;
  std::vector<double> mean_q{}, mean_k{};    ///< (d) at the middle of the context; empty: 0
  std::vector<double> drift_q{}, drift_k{};  ///< (d) a token; empty: 0
  std::vector<double> root_q{}, root_k{};    ///< (d, d) factor of the covariance; empty: identity
};

/// Rows of a planted head. `view()` is valid as long as this lives, so a temporary has none.
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

/// Standard normal by Box and Muller from a counter.
inline double normal(const random_stream& stream, std::uint64_t i) {
  const double u = 1.0 - stream.uniform(2 * i), v = stream.uniform(2 * i + 1);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

template <class T>
T rounded(double x) {
  if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>)
    return T::round(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

template <class T>
void plant_side(const planted_head& head, bool query, std::vector<T>& x, std::vector<std::int32_t>& position,
                std::vector<std::int32_t>& document) {
  const auto d = static_cast<std::size_t>(head.dim);
  const auto& mean = query ? head.mean_q : head.mean_k;
  const auto& drift = query ? head.drift_q : head.drift_k;
  const auto& root = query ? head.root_q : head.root_k;
  std::vector<double> noise(d);
  for (index_t e = 0; e < head.documents; ++e) {
    const random_stream stream{head.seed, static_cast<std::uint32_t>(e), query ? 0u : 1u, draw::planted};
    std::vector<std::int32_t> at;
    for (index_t i = 0; i < head.rows; ++i)
      at.push_back(static_cast<std::int32_t>(stream.below((std::uint64_t{1} << 40) + static_cast<std::uint64_t>(i),
                                                          static_cast<std::uint64_t>(head.context_length))));
    std::sort(at.begin(), at.end());
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (std::size_t c = 0; c < d; ++c) noise[c] = normal(stream, i * d + c);
      const double t = at[i] - 0.5 * static_cast<double>(head.context_length);
      for (std::size_t r = 0; r < d; ++r) {
        double value = (mean.empty() ? 0.0 : mean[r]) + (drift.empty() ? 0.0 : drift[r] * t);
        if (root.empty())
          value += noise[r];
        else
          for (std::size_t c = 0; c < d; ++c) value += root[r * d + c] * noise[c];
        x.push_back(rounded<T>(value));
      }
      position.push_back(at[i]);
      document.push_back(static_cast<std::int32_t>(e));
    }
  }
}

}  // namespace detail

/// Draws the rows of a planted head; the same for the same seed on every machine up to the rounding of log and cos.
/// Throws if a number of the head is out of range, or a vector of another size than it says.
template <class T = double>
planted_rows<T> plant(const planted_head& head) {
  require(head.dim >= 1, "plant: dim must be at least 1, not ", head.dim);
  require(head.context_length >= 1 && head.context_length <= index_t{0x7fffffff},
          "plant: context_length must lie in [1, 2147483647], not ", head.context_length);
  require(head.documents >= 0 && head.rows >= 0, "plant: examples (", head.documents, ") and rows (", head.rows,
          ") must be at least 0");
  const auto check_size = [](const char* name, const std::vector<double>& x, index_t size) {
    require(x.empty() || static_cast<index_t>(x.size()) == size, "plant: ", name, " has ", x.size(),
            " entries instead of ", size);
  };
  check_size("mean_q", head.mean_q, head.dim);
  check_size("mean_k", head.mean_k, head.dim);
  check_size("drift_q", head.drift_q, head.dim);
  check_size("drift_k", head.drift_k, head.dim);
  check_size("root_q", head.root_q, head.dim * head.dim);
  check_size("root_k", head.root_k, head.dim * head.dim);
  planted_rows<T> rows;
  rows.dim = head.dim;
  detail::plant_side(head, true, rows.q, rows.q_position, rows.q_document);
  detail::plant_side(head, false, rows.k, rows.k_position, rows.k_document);
  return rows;
}

}  // namespace qkgeom
