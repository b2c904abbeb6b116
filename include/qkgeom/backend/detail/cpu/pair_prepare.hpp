// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "qkgeom/backend/detail/cpu/wide_rows.hpp"
#include "qkgeom/backend/detail/pair_cells.hpp"
#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom::cpu {

template <class F>
using rows_matrix = Eigen::Matrix<F, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Finds the largest absolute value of rows of bf16; NaNs do not count.
class largest_bf16 {
 public:
  void add(const char* row, index_t n) {
    index_t c = 0;
    for (; c + together <= n; c += together) add_lanes(row + c * size, together * size);
    if (c < n) add_lanes(row + c * size, (n - c) * size);
  }
  float value() const {
    std::uint16_t each[together];
    std::memcpy(each, &most_, sizeof each);
    return bf16{*std::max_element(each, each + together)};
  }

 private:
  static constexpr index_t size = sizeof(bf16), together = sizeof(half_lanes) / size;

  void add_lanes(const char* from, index_t bytes) {
    constexpr std::uint16_t infinity = 0x7f80, without_sign = 0x7fff;
    half_lanes x{};
    std::memcpy(&x, from, bytes);
    x &= without_sign;
    x = x > infinity ? half_lanes{} : x;
    most_ = x > most_ ? x : most_;
  }

  half_lanes most_{};
};

/// Returns the largest absolute value of all rows and heads, read in the order of memory; NaNs do not count.
inline double largest_value(thread_pool& pool, const wide_tensor& x) {
  constexpr index_t block = 64;
  std::vector<double> largest((x.first.rows + block - 1) / block);
  pool.for_each(static_cast<index_t>(largest.size()), [&](index_t task, int) {
    std::vector<double> wide(x.first.cols);
    largest_bf16 narrow;
    double most = 0;
    for (index_t i = task * block; i < std::min(x.first.rows, (task + 1) * block); ++i)
      for (index_t h = 0; h < x.heads; ++h) {
        const auto rows = x.head(h);
        if (rows.type == dtype::bf16) {
          narrow.add(rows.data + i * rows.row_bytes, rows.cols);
        } else {
          rows.read(i, wide.data());
          most = std::max(most, backend::largest_size(wide));
        }
      }
    largest[task] = std::max<double>(most, narrow.value());
  });
  return largest.empty() ? 0.0 : *std::max_element(largest.begin(), largest.end());
}

/// Writes the keys of one group minus their centre to out (n, d). Differences of keys do not change, and f32 stays
/// exact if keys share a large term. Throws if a key is not finite.
template <class F>
void centred_keys(thread_pool& pool, const wide_rows& k, const keys_by_document& groups, index_t group, F* out,
                  backend::key_centre about = backend::key_centre::mean) {
  constexpr index_t block = 256;
  const index_t begin = groups.offset[group], n = groups.offset[group + 1] - begin;
  const index_t d = k.cols, blocks = (n + block - 1) / block;
  std::vector<double> sums((blocks + 1) * d);
  double* const mean = sums.data() + blocks * d;
  const auto over_rows = [&](index_t b, const auto& body) {
    std::vector<double> wide(d);
    for (index_t i = b * block; i < std::min(n, (b + 1) * block); ++i) {
      if (i + 8 < n) k.prefetch(groups.row[begin + i + 8]);
      k.read(groups.row[begin + i], wide.data());
      body(i, wide.data());
    }
  };
  const auto add = [&](index_t b, int) {
    double* const sum = sums.data() + b * d;
    over_rows(b, [&](index_t, const double* row) {
      for (index_t c = 0; c < d; ++c) sum[c] += row[c];
    });
  };
  const auto centre = [&](index_t b, int) {
    over_rows(b, [&](index_t i, const double* row) {
      F* const to = out + i * d;
      for (index_t c = 0; c < d; ++c) to[c] = static_cast<F>(row[c] - mean[c]);
    });
  };
  pool.for_each(blocks, add);
  for (index_t b = 0; b < blocks; ++b)
    for (index_t c = 0; c < d; ++c) mean[c] += sums[b * d + c] / static_cast<double>(n);
  backend::check_finite_keys(groups, group, mean, d);
  if (about == backend::key_centre::on_grid) {
    std::vector<double> wide(d), low(wide), high(wide);
    for (index_t j = 0; j < backend::grid_keys(n); ++j) {
      k.read(groups.row[begin + backend::grid_key(j, n)], wide.data());
      for (std::size_t c = 0; c < wide.size(); ++c) {
        low[c] = j == 0 ? wide[c] : std::min(low[c], wide[c]);
        high[c] = j == 0 ? wide[c] : std::max(high[c], wide[c]);
      }
    }
    for (std::size_t c = 0; c < wide.size(); ++c) mean[c] = backend::grid_centre(mean[c], low[c], high[c]);
  }
  pool.for_each(blocks, centre);
}

/// Does the same for a group of few keys, which are read once; `scratch` is the caller's.
template <class F>
void centred_small_keys(const wide_rows& k, const keys_by_document& groups, index_t group, F* out,
                        aligned_vector<double>& scratch) {
  constexpr int L = lanes<double>;
  constexpr index_t ahead = 8;
  const index_t begin = groups.offset[group], n = groups.offset[group + 1] - begin, d = k.cols,
                width = padded<double>(d);
  scratch.resize((n + 1) * width);
  double* const mean = scratch.data() + n * width;
  std::fill(mean, mean + width, 0.0);
  for (index_t i = 0; i < n; ++i) {
    double* const row = scratch.data() + i * width;
    if (begin + i + ahead < static_cast<index_t>(groups.row.size())) k.prefetch(groups.row[begin + i + ahead]);
    k.read(groups.row[begin + i], row);
    for (index_t c = 0; c < d; c += L) store(mean + c, load(mean + c) + load(row + c));
  }
  for (index_t c = 0; c < d; ++c) mean[c] /= static_cast<double>(n);
  backend::check_finite_keys(groups, group, mean, d);
  for (index_t i = 0; i < n; ++i) {
    const double* const row = scratch.data() + i * width;
    for (index_t c = 0; c < d; ++c) out[i * d + c] = static_cast<F>(row[c] - mean[c]);
  }
}

/// Multiplies rows (n, d) by H = I - 2uu'.
template <class F>
void reflect_rows(F* rows, index_t n, index_t d, const std::vector<double>& reflector) {
  if (reflector.empty()) return;
  const auto u = Eigen::Map<const Eigen::VectorXd>(reflector.data(), d).transpose().cast<F>().eval();
  for (index_t i = 0; i < n; ++i, rows += d) {
    Eigen::Map<Eigen::Matrix<F, 1, Eigen::Dynamic>> row(rows, d);
    row -= 2 * row.dot(u) * u;
  }
}

struct weighted_sums {
  double sum = 0, weight = 0;
  std::int64_t pairs = 0;
  void add(double value, double w) {
    sum += w * value;
    weight += w;
    pairs += w > 0;
  }
};

/// Destination of a task's sums: its groups' sums, which no other task writes, and the task's heatmap.
struct pair_sink {
  pair_sums* sums;
  const keys_by_document* groups;
  const pair_request* request;
  backend::heatmap_cells cells;
  bool counts = true;  ///< whether `heat_weight` is wanted although every pair counts 1
  std::vector<double> heat_sum, heat_weight;

  pair_sink(pair_sums& s, const keys_by_document& g, const pair_request& r)
      : sums(&s),
        groups(&g),
        request(&r),
        cells(backend::heatmap_cells::of(r.heatmap_cell, s.heatmap_width)),
        heat_sum(s.heatmap_sum.size()),
        heat_weight(s.heatmap_sum.size()) {}

  /// Returns whether only sums are wanted and every pair counts 1.
  bool simple() const { return !request->weight && request->heatmap_cell == 0; }

  /// Returns the weight of keys i < j of the group, both in `range`. Throws unless it is finite and at least 0.
  double weight(index_t group, const rank_range& range, const score_distribution& scores, index_t i, index_t j) const {
    if (!request->weight) return 1.0;
    const index_t first = groups->offset[group];
    const index_t a = first + i, b = first + j;
    key_pair pair{i - range.begin, j - range.begin, range.size(), groups->position[a], groups->position[b]};
    pair.document_i = pair.document_j = groups->document[group];
    if (!groups->key_document.empty()) {
      pair.document_i = groups->key_document[a];
      pair.document_j = groups->key_document[b];
    }
    pair.tau = scores.tau;
    const double w = request->weight(pair);
    backend::check_weight(w, pair.t_i, pair.t_j);
    return w;
  }

  /// Adds a bucket's sums over a group; without a weight, all pairs of `range` count.
  void add_sums(index_t bucket, index_t group, const rank_range& range, const weighted_sums& x) {
    const auto at = sums->at(bucket, group);
    sums->sum[at] += x.sum;
    sums->pairs[at] += request->weight ? x.pairs : range.pairs();
    sums->weight[at] += request->weight ? x.weight : static_cast<double>(range.pairs());
  }

  using pair_place = backend::heatmap_cells::pair_place;
  pair_place place(index_t group, index_t i, index_t j) const {
    if (request->heatmap_cell == 0) return {};
    const auto* t = groups->position.data() + groups->offset[group];
    return cells.place(t[i], t[j]);
  }
  void add_heat(const pair_place& at, const score_distribution& scores, double plasticity, double weight) {
    const index_t to = cells.cell_of(at, scores.tau);
    if (to < 0) return;
    heat_sum[to] += weight * plasticity;
    heat_weight[to] += weight;
  }
};

}  // namespace qkgeom::cpu
