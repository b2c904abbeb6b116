// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <map>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/rotary/planes.hpp"
#include "qkgeom/rotary/rotation_between.hpp"

namespace qkgeom {

namespace detail {

/// A query row and an earlier key row of the same document.
struct row_pair {
  index_t q, k, distance;
  std::size_t document;  ///< index of the document in ascending order
  std::int32_t number;   ///< of the document
};

/// Draws pairs in each document: a query among its rows, and a key among the rows that the query may read.
template <class T>
std::vector<row_pair> draw_row_pairs(const layer_view<T>& rows, const plane_options& options) {
  using side = std::vector<std::pair<index_t, index_t>>;  // (position, row), ascending
  std::map<std::int32_t, std::pair<side, side>> documents;
  for (index_t i = 0; i < rows.q.rows; ++i) documents[rows.q_document[i]].first.emplace_back(rows.q_position[i], i);
  for (index_t i = 0; i < rows.k.rows; ++i) documents[rows.k_document[i]].second.emplace_back(rows.k_position[i], i);
  std::vector<row_pair> pairs;
  std::size_t number = 0;
  for (auto& [document, sides] : documents) {
    auto &q = sides.first, &k = sides.second;
    std::sort(q.begin(), q.end());
    std::sort(k.begin(), k.end());
    const random_stream draws{options.seed, static_cast<std::uint32_t>(document), 0, draw::score_pair};
    const auto all = static_cast<index_t>(q.size() * k.size());
    for (index_t i = 0; i < std::min(options.pairs, all); ++i) {
      const auto at = static_cast<std::uint64_t>(2 * i);
      const auto [t, query] = q[draws.below(at, q.size())];
      const auto key = [&, t = t](index_t position) {
        return std::lower_bound(k.begin(), k.end(), std::pair{position, index_t{0}});
      };
      const auto first = key(rows.window ? t - *rows.window + 1 : 0), end = key(t);
      if (first >= end) continue;
      const auto drawn =
          first + static_cast<std::ptrdiff_t>(draws.below(at + 1, static_cast<std::uint64_t>(end - first)));
      pairs.push_back({query, drawn->second, t - drawn->first, number, document});
    }
    ++number;
  }
  return pairs;
}

/// Sums over the pairs of a document; entries are the planes, then the rest.
struct plane_sums {
  double n = 0, score = 0, square = 0;
  std::vector<double> part, part_score;                 // (planes + 1)
  std::vector<double> bin_n, bin_score, bin_predicted;  // (distances)
};

/// Returns the two coordinates of a row in a plane as a complex number.
template <class Row>
std::complex<double> in_plane(const Row& x, std::pair<std::size_t, std::size_t> p) {
  return {static_cast<double>(x[p.first]), static_cast<double>(x[p.second])};
}

/// The mean row (d), and |mean| over mean length in each plane.
struct row_means {
  std::vector<double> mean, concentration;
};
template <class T>
row_means means_of(const matrix_view<const T>& x, const std::vector<std::pair<std::size_t, std::size_t>>& planes) {
  row_means m{std::vector<double>(x.cols), std::vector<double>(planes.size())};
  const auto n = static_cast<double>(x.rows);
  for (index_t i = 0; i < x.rows; ++i) {
    const T* const row = x.row(i);
    for (index_t c = 0; c < x.cols; ++c) m.mean[c] += static_cast<double>(row[c]) / n;
    for (std::size_t p = 0; p < planes.size(); ++p) m.concentration[p] += std::abs(in_plane(row, planes[p])) / n;
  }
  for (std::size_t p = 0; p < planes.size(); ++p)
    m.concentration[p] = std::abs(in_plane(m.mean, planes[p])) / m.concentration[p];
  return m;
}

/// Returns cov(part, score) / var(score) over all pairs, with its jackknife error over documents.
inline estimate variance_share(const std::vector<plane_sums>& sums, std::size_t part) {
  using five = std::array<double, 5>;  // number, scores, squares, parts, parts times scores
  const auto of_document = [&](const plane_sums& e) {
    return five{e.n, e.score, e.square, e.part[part], e.part_score[part]};
  };
  const auto share = [](const five& x) { return (x[4] - x[3] * x[1] / x[0]) / (x[2] - x[1] * x[1] / x[0]); };
  five all{};
  for (const plane_sums& e : sums)
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += of_document(e)[i];
  std::vector<double> without;
  for (const plane_sums& e : sums) {
    if (e.n == 0) continue;
    five rest = all;
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= of_document(e)[i];
    without.push_back(share(rest));
  }
  return jackknife(share(all), without);
}

}  // namespace detail

template <context Context, class T>
std::vector<head_planes> planes_of(Context& ctx, const layer_view<T>& before, const std::optional<captured_rope>& rope,
                                   index_t context_length, const plane_options& options) {
  check_shapes(before);
  const std::size_t count = rope ? rope->inv_freq.size() : 0;
  const auto d = static_cast<std::size_t>(before.q.dim);
  require((rope ? static_cast<std::size_t>(rope->first) : 0) + 2 * count <= d,
          "planes_of: the rotary embedding rotates ", 2 * count, " coordinates of heads of ", d);
  std::vector<std::pair<std::size_t, std::size_t>> planes;
  std::vector<bool> rotated(d);
  for (std::size_t p = 0; p < count; ++p) {
    planes.push_back(plane_of(*rope, p));
    rotated[planes[p].first] = rotated[planes[p].second] = true;
  }
  const double factor = rope ? rope->attention_factor * rope->attention_factor : 1;
  const auto pairs = detail::draw_row_pairs(before, options);
  const std::size_t documents = pairs.empty() ? 0 : pairs.back().document + 1;
  // The phases (planes) of each pair: pairs of one distance, in documents of the same frequencies, share theirs.
  std::map<std::vector<double>, std::map<index_t, std::vector<std::complex<double>>>> phases;
  std::vector<const std::complex<double>*> phase_of_pair;
  auto shared = phases.try_emplace(rope ? rope->inv_freq : std::vector<double>{}).first;
  for (std::size_t i = 0; i < pairs.size() && rope; ++i) {
    if (options.frequencies && (i == 0 || pairs[i].document != pairs[i - 1].document))
      shared = phases.try_emplace(options.frequencies(pairs[i].number)).first;
    auto& phase = shared->second[pairs[i].distance];
    if (phase.empty())
      for (const double frequency : shared->first)
        phase.push_back(std::polar(factor, static_cast<double>(pairs[i].distance) * frequency));
    phase_of_pair.push_back(phase.data());
  }
  const auto bins =
      static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(std::max<index_t>(context_length - 1, 1))));
  std::vector<head_planes> heads(before.key_of_query.size());
  ctx.for_each(static_cast<index_t>(heads.size()), [&](index_t h) {
    const auto head = before.head(h);
    const auto q = detail::means_of<T>(head.q, planes), k = detail::means_of<T>(head.k, planes);
    double rest_of_means = 0;
    for (std::size_t c = 0; c < d; ++c)
      if (!rotated[c]) rest_of_means += q.mean[c] * k.mean[c];
    std::vector<std::complex<double>> product;
    for (const auto& p : planes)
      product.push_back(detail::in_plane(q.mean, p) * std::conj(detail::in_plane(k.mean, p)));
    std::vector<detail::plane_sums> sums(
        documents, {0, 0, 0, std::vector<double>(count + 1), std::vector<double>(count + 1), std::vector<double>(bins),
                    std::vector<double>(bins), std::vector<double>(bins)});
    std::vector<double> part(count + 1);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const T *const x = head.q.row(pairs[i].q), *const y = head.k.row(pairs[i].k);
      part[count] = 0;
      for (std::size_t c = 0; c < d; ++c)
        if (!rotated[c]) part[count] += static_cast<double>(x[c]) * static_cast<double>(y[c]);
      double score = part[count], predicted = rest_of_means;
      for (std::size_t p = 0; p < count; ++p) {
        const auto rotation = phase_of_pair[i][p];
        part[p] = (rotation * detail::in_plane(x, planes[p]) * std::conj(detail::in_plane(y, planes[p]))).real();
        score += part[p];
        predicted += (rotation * product[p]).real();
      }
      auto& sum = sums[pairs[i].document];
      sum.n += 1;
      sum.score += score;
      sum.square += score * score;
      for (std::size_t p = 0; p <= count; ++p) {
        sum.part[p] += part[p];
        sum.part_score[p] += part[p] * score;
      }
      const auto bin = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(pairs[i].distance))) - 1;
      sum.bin_n[bin] += 1;
      sum.bin_score[bin] += score;
      sum.bin_predicted[bin] += predicted;
    }
    auto& found = heads[h];
    for (std::size_t p = 0; p < count; ++p)
      found.planes.push_back({q.concentration[p], k.concentration[p], detail::variance_share(sums, p)});
    found.rest = detail::variance_share(sums, count);
    for (std::size_t b = 0; b < bins; ++b) {
      std::vector<double> n, s;
      double all = 0, predicted = 0;
      for (const auto& sum : sums) {
        n.push_back(sum.bin_n[b]);
        s.push_back(sum.bin_score[b]);
        all += sum.bin_n[b];
        predicted += sum.bin_predicted[b];
      }
      if (all > 0)
        found.distances.push_back(
            {index_t{1} << b, std::min(index_t{2} << b, context_length), all, ratio_of_sums(s, n), predicted / all});
    }
  });
  return heads;
}

}  // namespace qkgeom
