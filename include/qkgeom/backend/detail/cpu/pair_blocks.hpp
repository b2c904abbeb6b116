// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/cpu/pair_math.hpp"
#include "qkgeom/backend/detail/cpu/pair_prepare.hpp"

namespace qkgeom::cpu {

/// The most keys of a group whose pairs are computed from differences; larger groups use Gram matrices.
inline constexpr index_t small_group = 64;

/// Returns the number of pairs of `keys` keys. Pairs of ranks i < j are numbered by the later key: pair (i, j) has
/// number j (j - 1) / 2 + i, so that the first m keys have the first pairs_of(m) pairs.
constexpr index_t pairs_of(index_t keys) { return keys * (keys - 1) / 2; }

namespace detail {
template <class F, int Bit, std::size_t... I>
vec<F> fold_lanes(const vec<F>& a, const vec<F>& b, std::index_sequence<I...>) {
  constexpr int L = lanes<F>;
  return __builtin_shufflevector(a, b, static_cast<int>(I & ~std::size_t{Bit}) + (I & Bit ? L : 0)...) +
         __builtin_shufflevector(a, b, static_cast<int>(I | Bit) + (I & Bit ? L : 0)...);
}
}  // namespace detail

/// Returns in lane l the sum over the lanes of x[l]; overwrites x (lanes).
template <class F, int Bit = 1>
vec<F> sum_of_each(vec<F>* x) {
  constexpr int left = lanes<F> / Bit;
  if constexpr (left == 1) {
    return x[0];
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < left / 2; ++i)
      x[i] = detail::fold_lanes<F, Bit>(x[2 * i], x[2 * i + 1], std::make_index_sequence<lanes<F>>{});
    return sum_of_each<F, 2 * Bit>(x);
  }
}

/// A run of groups that one task sums, with what depends only on their positions and so serves all heads.
struct group_run {
  index_t begin = 0, end = 0;  ///< groups
  index_t rows = 0;
  bool small = false;
  std::vector<std::int32_t> place{};       ///< (rows) rank of each key by position among all of the run
  std::vector<index_t> first_pair{};       ///< (groups) in `row` and `middle`
  aligned_vector<double> row{}, middle{};  ///< (pairs) their `heatmap_cells::place`

  void order_by_position(const keys_by_document& groups) {
    const auto* const t = groups.position.data() + groups.offset[begin];
    std::vector<std::int32_t> order(rows);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return t[a] < t[b]; });
    place.resize(rows);
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<std::int32_t>(i);
  }

  void place_pairs(const keys_by_document& groups, const backend::heatmap_cells& cells) {
    for (index_t g = begin; g < end; ++g) {
      first_pair.push_back(static_cast<index_t>(row.size()));
      const auto* const t = groups.position.data() + groups.offset[g];
      for (index_t j = 1; j < groups.offset[g + 1] - groups.offset[g]; ++j)
        for (index_t i = 0; i < j; ++i) {
          const auto at = cells.place(t[i], t[j]);
          row.push_back(static_cast<double>(at.row));
          middle.push_back(at.middle);
        }
      row.resize(padded<double>(static_cast<index_t>(row.size())));
      middle.resize(row.size());
    }
  }
};

/// Turns the v of a group's pairs under one query bucket into plasticity, sums, heatmap and weights.
template <class F>
class pair_finish {
 public:
  /// Sets the keys of the next pairs: the ranks [begin, end) of the group.
  void set_keys(const group_run& run, index_t group, index_t begin, index_t end) {
    const index_t count = pairs_of(end - begin), room = count + 2 * lanes<F>;
    m_.resize(room);
    plasticity_.resize(room);
    if (run.row.empty()) return;
    cell_.resize(room);
    const index_t first = run.first_pair[group - run.begin];
    row_ = run.row.data() + first;
    middle_ = run.middle.data() + first;
    if (begin == 0) return;
    own_row_.resize(room);
    own_middle_.resize(room);
    for (index_t j = 1; j < end - begin; ++j) {
      const index_t from = pairs_of(begin + j) + begin;
      std::copy(row_ + from, row_ + from + j, own_row_.data() + pairs_of(j));
      std::copy(middle_ + from, middle_ + from + j, own_middle_.data() + pairs_of(j));
    }
    row_ = own_row_.data();
    middle_ = own_middle_.data();
  }

  /// Adds the sums of a query bucket that admits the ranks `range` of the group, beginning with the first key. v
  /// (pairs) and score (keys, padded by a vector) share a power of two as their scale.
  void add(index_t bucket, index_t group, const rank_range& range, const score_distribution& scores, const F* v,
           const F* score, pair_sink& sink) {
    const index_t keys = range.size(), count = pairs_of(keys);
    for (index_t j = 1; j < keys; ++j) {
      const vec<F> later = splat(score[j]);
      F* const to = m_.data() + pairs_of(j);  // the next j overwrites values written beyond pair (j - 1, j)
      for (index_t i = 0; i < j; i += lanes<F>) store(to + i, load(score + i) - later);
    }
    const bool simple = sink.simple();
    const vec<F> scale = splat(scale_of(v, count)), zero{};
    lane_sums<F> sum;
    for (index_t p = 0; p < count; p += lanes<F>) {
      vec<F> pp = difference_plasticity<F>(load(m_.data() + p) * scale, load(v + p) * scale * scale);
      if (count - p < lanes<F>) pp = first_lanes(count - p) ? pp : zero;
      sum.add(pp);
      if (!simple) store(plasticity_.data() + p, pp);
    }
    weighted_sums total{sum.value()};
    if (sink.request->weight)
      total = add_weighted(group, range, scores, sink);
    else if (!simple)
      add_heat(count, scores, sink);
    sink.add_sums(bucket, group, range, total);
  }

 private:
  using mask = typename simd<F>::mask;
  using lane_int = std::conditional_t<sizeof(F) == 4, std::int32_t, std::int64_t>;

  static mask first_lanes(index_t count) {
    mask m;
    for (int l = 0; l < lanes<F>; ++l) m[l] = l < count ? lane_int{-1} : lane_int{0};
    return m;
  }

  /// Returns the power of two that brings v to order 1.
  static F scale_of(const F* v, index_t count) {
    lane_sums<F> sum;
    index_t p = 0;
    for (; p + lanes<F> <= count; p += lanes<F>) sum.add(load(v + p));
    double total = sum.value();
    for (; p < count; ++p) total += static_cast<double>(v[p]);
    return static_cast<F>(backend::unit_scale(total / static_cast<double>(count)));
  }

  void add_heat(index_t count, const score_distribution& scores, pair_sink& sink) {
    for (index_t p = 0; p < count; p += lanes<double>)
      store(cell_.data() + p, cells_of(load(row_ + p), load(middle_ + p), scores.tau, sink.cells));
    double* const heat = sink.heat_sum.data();
    for (index_t p = 0; p < count; ++p)
      if (cell_[p] >= 0) heat[static_cast<index_t>(cell_[p])] += static_cast<double>(plasticity_[p]);
    if (!sink.counts) return;
    for (index_t p = 0; p < count; ++p)
      if (cell_[p] >= 0) sink.heat_weight[static_cast<index_t>(cell_[p])] += 1;
  }

  /// Computes `heatmap_cells::cell_of` by lanes.
  static vec<double> cells_of(const vec<double>& row, const vec<double>& middle, double tau,
                              const backend::heatmap_cells& cells) {
    constexpr double whole = 0x1.8p52;  // added and subtracted again, it rounds to integers
    const vec<double> x = tau - middle, one = splat(1.0), zero{}, outside = splat(-1.0),
                      width = splat(static_cast<double>(cells.width));
    vec<double> back = (x * cells.per_cell + whole) - whole;
    const vec<double> rest = x - back * cells.cell;
    back -= rest < zero ? one : zero;
    back += rest >= splat(cells.cell) ? one : zero;
    const auto inside = (row >= zero) & (row < width) & (back >= zero) & (back < width);
    return inside ? row * width + back : outside;
  }

  weighted_sums add_weighted(index_t group, const rank_range& range, const score_distribution& scores,
                             pair_sink& sink) {
    weighted_sums total;
    const F* pp = plasticity_.data();
    for (index_t j = range.begin + 1; j < range.end; ++j)
      for (index_t i = range.begin; i < j; ++i) {
        const auto value = static_cast<double>(*pp++);
        const double w = sink.weight(group, range, scores, i, j);
        if (w == 0) continue;
        sink.add_heat(sink.place(group, i, j), scores, value, w);
        total.add(value, w);
      }
    return total;
  }

  aligned_vector<F> m_, plasticity_;
  const double *row_ = nullptr, *middle_ = nullptr;     ///< see group_run
  aligned_vector<double> own_row_, own_middle_, cell_;  ///< for a range that begins later; cells under one bucket
};

}  // namespace qkgeom::cpu
