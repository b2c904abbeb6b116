// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/stats/jackknife.hpp"
#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

/// Result of a test whether queries depend on position, with documents as independent units.
struct drift_test_result {
  index_t documents = 0;
  double beta_pos = 0;                                               ///< |beta|, per token
  double standard_error = std::numeric_limits<double>::quiet_NaN();  ///< of beta_pos, over documents
  double p = std::numeric_limits<double>::quiet_NaN();  ///< null hypothesis: beta = 0; NaN for fewer than two documents
  double least_p = std::numeric_limits<double>::quiet_NaN();  ///< smallest p that these documents or flips can give
};

struct drift_test_options {
  index_t max_flips = 1999;  ///< sign patterns visited: all, or this many drawn ones
  std::uint64_t seed = 0;
};

/// Tests beta = 0 for each query head of a layer (docs/mathematics.md, Query model). Without drift a document's sum of
/// (q - mean)(t - mean t) is as likely as its negative, so p is the share of sign patterns over documents that give a
/// drift as large, at least 2^(1 - G) for G documents (`least_p`). The standard error is the sandwich over documents.
/// `moments` belong to exactly these rows. Needs rows on the host. Throws if the moments do not fit the layer.
template <context Context, class T>
std::vector<drift_test_result> drift_significance(Context& ctx, const layer_moments& moments,
                                                  const layer_view<T, memory_space::host>& layer,
                                                  const drift_test_options& options = {});

/// Does the same for one head.
template <context Context, class T>
drift_test_result drift_significance(Context&, const head_moments& moments,
                                     const head_view<T, memory_space::host>& head,
                                     const drift_test_options& options = {});

namespace detail {

/// Returns whether all sign patterns of the documents are visited, and how many patterns are.
inline std::pair<bool, std::uint64_t> sign_patterns(std::size_t documents, const drift_test_options& options) {
  require(options.max_flips > 0, "drift_test: max_flips must be at least 1, not ", options.max_flips);
  const std::uint64_t flips = options.max_flips;
  const bool all = documents < 63 && (std::uint64_t{1} << (documents - 1)) <= flips;
  return {all, all ? std::uint64_t{1} << (documents - 1) : flips + 1};
}

/// Returns the share of sign patterns of the documents' vectors (documents, d) for which the norm of the signed sum is
/// at least the norm of the plain sum, which counts too. Visits all patterns, or `max_flips` drawn ones if there are
/// more. Flipping all signs changes nothing, so the first document keeps its sign.
inline double sign_flip_p(const std::vector<double>& vectors, std::size_t d, const drift_test_options& options) {
  const std::size_t documents = vectors.size() / d;
  const auto [all, patterns] = sign_patterns(documents, options);
  const random_stream stream{options.seed, 0, 0, draw::sign_flip};
  std::vector<double> sum(d);
  double observed = 0;
  std::uint64_t larger = 0;
  for (std::uint64_t p = 0; p < patterns; ++p) {
    std::fill(sum.begin(), sum.end(), 0.0);
    std::array<std::uint32_t, 4> bits{};
    for (std::size_t e = 0; e < documents; ++e) {
      if (!all && e % 128 == 0) bits = stream.bits(p * ((documents + 127) / 128) + e / 128);
      const bool drawn = (bits[e / 32 % 4] >> (e % 32)) & 1u;
      const bool minus = p > 0 && (all ? e > 0 && ((p >> (e - 1)) & 1u) : drawn);
      const double sign = minus ? -1.0 : 1.0, *const mine = &vectors[e * d];
      for (std::size_t c = 0; c < d; ++c) sum[c] += sign * mine[c];
    }
    const double norm = dense::dot(sum, sum);
    if (p == 0) observed = norm;
    larger += norm >= observed * (1 - 1e-12);
  }
  return static_cast<double>(larger) / static_cast<double>(patterns);
}

template <class T>
drift_test_result drift_test_of(const row_moments& m, const matrix_view<const T>& q,
                                const vector_view<const std::int32_t>& position,
                                const vector_view<const std::int32_t>& document, const drift_test_options& options) {
  const std::size_t d = q.cols;
  require(m.count == q.rows && m.dim() == q.cols, "drift_test: the moments are of ", m.count, " rows of size ", m.dim(),
          ", the queries of ", q.rows, " rows of size ", q.cols);
  const auto beta = dense::scaled(m.xt, slope(1.0, m.tt));
  drift_test_result r;
  r.beta_pos = dense::norm(beta);
  std::map<std::int32_t, std::size_t> place;
  for (const std::int32_t e : document) place.emplace(e, place.size());
  r.documents = place.size();
  if (r.documents < 2 || !(m.tt > 0)) return r;
  // Sums per document of (x - mean)(t - mean t), and of the residuals times (t - mean t) along the drift.
  std::vector<double> product(place.size() * d), along(place.size());
  for (index_t i = 0; i < q.rows; ++i) {
    const std::size_t e = place.at(document[i]);
    const double t = static_cast<double>(position[i]) - m.mean_t;
    for (std::size_t c = 0; c < d; ++c) {
      const double x = static_cast<double>(q(i, c)) - m.mean[c];
      product[e * d + c] += x * t;
      along[e] += (x - beta[c] * t) * t * (r.beta_pos > 0 ? beta[c] / r.beta_pos : 0.0);
    }
  }
  const double n = static_cast<double>(r.documents);
  if (r.documents >= least_documents) r.standard_error = std::sqrt(n / (n - 1) * dense::dot(along, along)) / m.tt;
  r.p = sign_flip_p(product, d, options);
  r.least_p = 1 / static_cast<double>(sign_patterns(place.size(), options).second);
  return r;
}

}  // namespace detail

template <context Context, class T>
std::vector<drift_test_result> drift_significance(Context& ctx, const layer_moments& moments,
                                                  const layer_view<T, memory_space::host>& layer,
                                                  const drift_test_options& options) {
  check_shapes(layer);
  check_moments("drift_test", moments, layer);
  std::vector<drift_test_result> results(moments.q.size());
  ctx.for_each(layer.q.heads, [&](index_t h) {
    results[h] =
        detail::drift_test_of(moments.q[h].total, layer.q.head(h), layer.q_position, layer.q_document, options);
  });
  return results;
}

template <context Context, class T>
drift_test_result drift_significance(Context&, const head_moments& moments,
                                     const head_view<T, memory_space::host>& head, const drift_test_options& options) {
  check_shapes(as_layer(head));
  return detail::drift_test_of(moments.q.total, head.q, head.q_position, head.q_document, options);
}

}  // namespace qkgeom
