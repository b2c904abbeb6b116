// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/thrust/products.hpp"
#include "qkgeom/context/needle_scores.hpp"

/// Scores of needles: rows are rotated, multiplied, and runs of scores are reduced.
namespace qkgeom::thrust_kernels {

/// A row of a layer and the number of the position to which it is rotated.
struct placed_row {
  index_t from, to;  ///< `from`: its first coordinate
};

/// Writes the rotated rows to y (rows, d). One call writes one slot of a row.
template <class T>
struct rotate_placed {
  const T* x;
  const placed_row* rows;
  table_rotation rotation;
  index_t d;
  float* y;
  QKGEOM_HD void operator()(index_t item) const {
    const index_t i = item / rotation.slots(d);
    rotation(rows[i].to, item % rotation.slots(d), x + rows[i].from, y + i * d);
  }
};

/// The scores of a query with n keys, and what they are held against.
struct score_run {
  const float* scores;
  index_t n;
  float threshold = no_score;
  index_t own = -1;               ///< number of the needle's own key; negative: it is elsewhere
  const float* weight = nullptr;  ///< (shells), or null
  index_t shell = 0;              ///< with weights `scores` are (shells, n), and this one is looked at
};

/// What a run holds above its threshold. Every 32nd score is added by one call, and these sums by neighbouring calls.
struct run_sums {
  float top = no_score;
  index_t at = 0;              ///< the first one of the top
  split_scores split{};        ///< about the threshold; the own key has no share
  float own = 0;               ///< score of the own key
  double sum = 0, square = 0;  ///< of the excesses over the threshold, if there is one, else of the scores

  QKGEOM_HD void take(const score_run& r, index_t j) {
    const float x = r.scores[r.shell * r.n + j];
    const bool hit = x > r.threshold;
    const double y = !hit ? 0 : r.threshold == no_score ? x : x - r.threshold;
    float share = 0;
    for (index_t i = 0; i <= r.shell && r.weight && j != r.own; ++i)
      if (r.scores[i * r.n + j] > r.threshold) share += r.weight[i];
    const split_scores about{hit ? 1.f : 0.f, hit ? x : -no_score, hit ? no_score : x, share * share};
    add({x, j, about, j == r.own ? x : 0, y, y * y});
  }
  QKGEOM_HD void add(const run_sums& o) {
    if (o.top > top || (o.top == top && o.at < at)) top = o.top, at = o.at;
    split.count += o.split.count, split.square += o.split.square;
    if (o.split.above < split.above) split.above = o.split.above;
    if (o.split.below > split.below) split.below = o.split.below;
    own += o.own, sum += o.sum, square += o.square;
  }
};
struct reduce_lanes {
  static constexpr index_t lanes = 32;
  const score_run* runs;
  run_sums* to;
  QKGEOM_HD void operator()(index_t item) const {
    const score_run run = runs[item / lanes];
    run_sums sums;
    for (index_t j = item % lanes; j < run.n; j += lanes) sums.take(run, j);
    to[item] = sums;
  }
};

/// Scores the needles of documents, one query head at a time.
template <class Device, class Multiply, class T, memory_space S>
class needle_scorer {
  using floats = typename Device::template buffer<float>;
  using rows_buffer = typename Device::template buffer<placed_row>;

 public:
  needle_scorer(const Device& device, const Multiply& multiply, const tensor_view<const T, S>& q,
                const tensor_view<const T, S>& k, const std::vector<index_t>& key_of_query, const needle_plan& plan)
      : device_(device),
        multiply_(multiply),
        q_(q),
        k_(k),
        key_of_query_(key_of_query),
        plan_(plan),
        planes_(device.copy(plan.rotation.planes)),
        cos_sin_(device.copy(plan.cos_sin)),
        weight_(device.copy(std::vector<float>(plan.weight.begin(), plan.weight.end()))) {}

  std::vector<needle_scores> operator()(const needle_document& e) const {
    const index_t m = e.tokens - plan_.first;
    // Keys at their own positions, and as far ones: (shells, m), where first ones compete (shells, first), needles.
    std::vector<placed_row> near, far;
    const auto key = [&](index_t t, index_t to) { return placed_row{(e.begin + t) * k_.row_stride, to}; };
    for (index_t t = 0; t < e.tokens; ++t) near.push_back(key(t, plan_.own + t));
    for (index_t i = 0; i < shells(); ++i)
      for (index_t j = 0; j < m; ++j) far.push_back(key(plan_.first + j, plan_.far + i * plan_.far_keys + j));
    for (index_t i = 0; i < sinks(); ++i) far.push_back(key(i % plan_.first, *plan_.sinks + i));
    for (const needle& one : e.needles)
      if (one.moved >= 0) far.push_back(key(one.key, one.moved));
    std::vector<placed_row> own, still;
    for (std::size_t c = 0; c < e.row.size(); ++c) {
      own.push_back({e.row[c] * q_.row_stride, plan_.own + e.at[c]});
      still.push_back({e.row[c] * q_.row_stride, plan_.own});
    }
    const auto on_near = device_.copy(near), on_far = device_.copy(far), on_own = device_.copy(own),
               on_still = device_.copy(still);
    std::vector<needle_scores> found(key_of_query_.size());
    for (index_t g = 0; g < k_.heads; ++g) {
      const auto near_k = rotated(k_.head(g).data, on_near), far_k = rotated(k_.head(g).data, on_far);
      for (std::size_t h = 0; h < found.size(); ++h)
        if (key_of_query_[h] == g) {
          const T* const q = q_.head(static_cast<index_t>(h)).data;
          found[h] = of_head(e, products(rotated(q, on_own), near_k), products(rotated(q, on_still), far_k));
        }
    }
    return found;
  }

 private:
  index_t shells() const { return static_cast<index_t>(plan_.weight.size()); }
  index_t sinks() const { return plan_.sinks ? shells() * plan_.first : 0; }

  floats rotated(const T* x, const rows_buffer& rows) const {
    const index_t d = k_.dim;
    auto y = device_.template make<float>(rows.size() * d);
    const rotate_placed<T> rotate{
        x, rows.data(), {planes_.data(), planes_.size(), plan_.rotation.first, cos_sin_.data()}, d, y.data()};
    device_.each(rows.size() * rotate.rotation.slots(d), rotate);
    return y;
  }
  floats products(const floats& q, const floats& k) const {
    const index_t d = k_.dim, rows = q.size() / d, columns = k.size() / d;
    auto scores = device_.template make<float>(rows * columns);
    multiply_(device_, matrix_products<float>{.rows = rows,
                                              .columns = columns,
                                              .depth = d,
                                              .a = {q.data(), 0},
                                              .b = {k.data(), 0},
                                              .c = {scores.data(), 0}});
    return scores;
  }

  /// Returns what the scores of a query head's rows with the near keys and with the far ones say of the needles.
  needle_scores of_head(const needle_document& e, const floats& near, const floats& far) const {
    const index_t m = e.tokens - plan_.first, queries = static_cast<index_t>(e.row.size()),
                  columns = far.size() / std::max<index_t>(1, queries);
    const auto near_of = [&](const needle& n) { return near.data() + n.query * e.tokens; };
    const auto far_of = [&](const needle& n) { return far.data() + n.query * columns; };
    needle_scores found{.excess = excess_of(far.data(), queries, columns, m)};
    std::vector<score_run> runs;
    // Where needles stand, and their scores.
    index_t moved = shells() * m + sinks();
    for (const needle& n : e.needles)
      if (n.moved >= 0)
        runs.push_back({far_of(n) + moved++, 1});
      else if (n.key >= 0)
        runs.push_back({near_of(n) + n.key, 1});
      else
        runs.push_back({near_of(n) + e.at[n.query] - plan_.near, plan_.near - plan_.nearest});
    std::vector<index_t> keys;
    for (const auto& best : reduced(runs)) {
      const needle& n = e.needles[keys.size()];
      keys.push_back(n.key >= 0 ? n.key : e.at[n.query] - plan_.near + best.at);
      found.score.push_back(best.top);
    }
    // Near keys above.
    runs.clear();
    for (std::size_t a = 0; a < keys.size(); ++a) {
      const needle& n = e.needles[a];
      for (const index_t w : e.windows) {
        const index_t begin = e.at[n.query] - w;
        runs.push_back({near_of(n) + begin, w, found.score[a], keys[a] - begin});
      }
      runs.push_back({near_of(n), plan_.first, found.score[a]});
    }
    for (const auto& x : reduced(runs)) {
      const score_run& r = runs[found.near.size()];  // a needle that is moved stands elsewhere
      found.near.push_back(static_cast<index_t>(x.split.count) - (r.own >= 0 && x.own > r.threshold ? 1 : 0));
    }
    // Far keys above, and first ones.
    runs.clear();
    std::vector<score_run> of_first;
    std::vector<std::size_t> places;
    const std::size_t counts = e.windows.size() + 1;
    for (std::size_t a = 0; a < keys.size(); ++a) {
      const needle& n = e.needles[a];
      for (index_t i = 0; i < shells() && found.near[a * counts] <= n.most; ++i) {
        places.push_back(a * shells() + i);
        runs.push_back({far_of(n), m, found.score[a], keys[a] - plan_.first, weight_.data(), i});
        if (plan_.sinks) of_first.push_back({far_of(n) + shells() * m + i * plan_.first, plan_.first, found.score[a]});
      }
    }
    found.far.resize(keys.size() * shells());
    const auto splits = reduced(runs), firsts = reduced(of_first);
    for (std::size_t r = 0; r < splits.size(); ++r)
      found.far[places[r]] = {splits[r].split, splits[r].own,
                              firsts.empty() ? 0 : static_cast<index_t>(firsts[r].split.count)};
    return found;
  }

  /// Returns the excesses (shells, queries) of far scores (queries, columns), the first of which are (shells, m).
  std::vector<score_excess> excess_of(const float* far, index_t queries, index_t columns, index_t m) const {
    std::vector<score_run> runs;
    std::vector<score_excess> found;
    for (index_t i = 0; i < shells(); ++i)
      for (index_t c = 0; c < queries; ++c) runs.push_back({far + c * columns + i * m, m});
    for (const auto& x : reduced(runs)) {
      const double n = static_cast<double>(m), mean = x.sum / n, variance = std::max(0.0, x.square / n - mean * mean);
      const double start = mean + 1.5 * std::sqrt(variance);
      runs[found.size()].threshold = static_cast<float>(start);
      found.push_back({x.top, start});
    }
    const auto above = reduced(runs);
    for (std::size_t r = 0; r < above.size(); ++r)
      found[r] = {found[r].top, found[r].start, above[r].split.count, above[r].sum, above[r].square};
    return found;
  }

  std::vector<run_sums> reduced(const std::vector<score_run>& runs) const {
    if (runs.empty()) return {};
    const auto on_runs = device_.copy(runs);
    auto values = device_.template make<run_sums>(on_runs.size() * reduce_lanes::lanes);
    device_.each(values.size(), reduce_lanes{on_runs.data(), values.data()});
    std::vector<index_t> offset;
    for (index_t i = 0; i <= on_runs.size(); ++i) offset.push_back(i * reduce_lanes::lanes);
    return segment_sums(device_, std::move(values), std::move(offset));
  }

  const Device& device_;
  const Multiply& multiply_;
  tensor_view<const T, S> q_, k_;
  const std::vector<index_t>& key_of_query_;
  const needle_plan& plan_;
  typename Device::template buffer<rotated_plane> planes_;
  typename Device::template buffer<double> cos_sin_;
  floats weight_;
};

}  // namespace qkgeom::thrust_kernels
