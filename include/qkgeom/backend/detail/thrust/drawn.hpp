// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/thrust/draws.hpp"
#include "qkgeom/backend/detail/thrust/products.hpp"

namespace qkgeom::thrust_kernels {

/// Sums over drawn pairs, in f64. Each step takes many query buckets of many heads at once: draws, differences of keys,
/// a product per problem that gives z, drift and content of the differences, values, sums by group.
template <class Device, class Multiply, class T, memory_space S>
class drawn_pairs {
  template <class F>
  using buffer = typename Device::template buffer<F>;
  static constexpr index_t values = heatmap_terms::values;

 public:
  drawn_pairs(const Device& device, const Multiply& multiply, std::size_t scratch, const tensor_view<const T, S>& k,
              const keys_by_document& groups, const std::vector<pair_problem>& problems, const pair_request& request)
      : device_(device),
        multiply_(multiply),
        scratch_(static_cast<index_t>(scratch / sizeof(double))),
        problems_(problems),
        request_(request),
        groups_(device, groups),
        keys_(device, k, groups_),
        d_(k.dim) {}

  std::vector<pair_sums> operator()() {
    auto results = backend::empty_sums(groups_.host, problems_, request_);
    if (groups_.host.groups() <= 0) return results;
    require(groups_.n <= index_t{1} << 31, "drawn pairs: at most 2147483648 keys, not ", groups_.n);
    for (auto& r : results) start(r);
    const auto buckets = buckets_with_pairs();
    index_t slots = 0;
    for (const auto& b : buckets) slots = std::max<index_t>(slots, b.count);
    const index_t bucket_values = slots * (2 * d_ + 4 + values) + d_ * (d_ + 2);
    const index_t most = std::clamp<index_t>(scratch_ / std::max<index_t>(1, bucket_values), 1, 1 << 16),
                  count = static_cast<index_t>(buckets.size());
    for (index_t at = 0; at < count; at += most)
      add_buckets({buckets.begin() + at, buckets.begin() + std::min(count, at + most)}, slots, results);
    groups_.require_finite();
    if (!results.empty()) fold_cells(results);
    return results;
  }

 private:
  /// The keys that a query bucket admits, by group.
  struct admitted_set {
    index_t number = 0;
    std::vector<rank_range> range;
    std::int64_t pairs = 0;
  };

  const admitted_set& admitted(const score_distribution& scores) {
    const auto [found, is_new] = sets_.try_emplace(std::pair(scores.before, scores.after));
    auto& set = found->second;
    if (!is_new) return set;
    set.number = static_cast<index_t>(sets_.size()) - 1;
    for (index_t g = 0; g < groups_.host.groups(); ++g) {
      set.range.push_back(admissible(groups_.host, g, scores));
      before_.push_back(set.pairs);
      first_.push_back(groups_.host.offset[g] + set.range.back().begin);
      set.pairs += set.range.back().pairs();
    }
    before_.push_back(set.pairs);
    return set;
  }

  void start(pair_sums& to) const {
    to.drawn.assign(to.sum.size(), 0);
    to.square.assign(to.sum.size(), 0.0);
    if (request_.terms) to.term_sum.assign(to.sum.size() * pair_terms, 0.0);
  }

  std::vector<bucket_draws> buckets_with_pairs() {
    std::vector<bucket_draws> buckets;
    for (index_t p = 0; p < static_cast<index_t>(problems_.size()); ++p)
      for (index_t b = 0; b < static_cast<index_t>(problems_[p].distributions.size()); ++b) {
        const auto& scores = problems_[p].distributions[b];
        if (scores.empty()) continue;
        const auto& set = admitted(scores);
        if (set.pairs == 0) continue;
        const auto count = std::min<std::int64_t>(set.pairs, request_.sample.pairs);
        buckets.push_back({p, b, set.number, set.pairs, count, set.pairs == count,
                           static_cast<double>(set.pairs) / static_cast<double>(count)});
      }
    return buckets;
  }
  const score_distribution& scores_of(const bucket_draws& at) const {
    return problems_[at.problem].distributions[at.bucket];
  }

  void add_buckets(const std::vector<bucket_draws>& buckets, index_t slots, std::vector<pair_sums>& results) {
    const auto count = static_cast<index_t>(buckets.size()), pairs = count * slots;
    const auto on_buckets = device_.copy(buckets);
    const auto before = device_.copy(before_);
    const auto first = device_.copy(first_);
    const auto left = device_.template make<std::int32_t>(pairs), right = device_.template make<std::int32_t>(pairs),
               group = device_.template make<std::int32_t>(pairs);
    device_.each(pairs, draw_keys{.buckets = on_buckets.data(),
                                  .before = before.data(),
                                  .first = first.data(),
                                  .groups = groups_.host.groups(),
                                  .slots = slots,
                                  .sample = request_.sample,
                                  .left = left.data(),
                                  .right = right.data(),
                                  .group = group.data()});
    const auto value = device_.template make<double>(pairs * values);
    add_values(buckets, slots, left.data(), right.data(), value.data());
    const index_t sums = count * groups_.host.groups();
    const auto sum = device_.template make<double>(sums * sum_draws::width);
    device_.each(sums,
                 sum_draws{value.data(), group.data(), on_buckets.data(), groups_.host.groups(), slots, sum.data()});
    write(buckets, sum.host(), results);
    if (request_.heatmap_cell > 0)
      add_cells(buckets, slots, value.host(), left.host(), right.host(), group.host(), results);
  }

  struct bucket_maps {
    std::vector<double> map;     ///< (buckets, d + 2, d): times a difference it gives a row of drawn_values::product
    std::vector<double> factor;  ///< (buckets, d), see drawn_values
    std::vector<drawn_bucket> buckets;
  };
  bucket_maps maps_of(const std::vector<bucket_draws>& buckets) const {
    const auto append = [](const std::vector<double>& from, std::vector<double>& to) {
      to.insert(to.end(), from.begin(), from.end());
    };
    bucket_maps m;
    for (const auto& draws : buckets) {
      const auto& reflector = problems_[draws.problem].reflector;
      const auto& scores = scores_of(draws);
      const drift_split split(scores, reflector, d_);
      auto z = key_map(scores, reflector, d_);
      z.resize(d_ * d_);
      append(z, m.map);
      append(split.axis, m.map);
      append(split.content, m.map);
      append(split.row, m.factor);
      m.buckets.push_back({split.mean, split.variance, scores.variance.empty()});
      m.factor.resize(m.buckets.size() * d_);
    }
    return m;
  }

  void add_values(const std::vector<bucket_draws>& buckets, index_t slots, const std::int32_t* left,
                  const std::int32_t* right, double* value) {
    const auto maps = maps_of(buckets);
    const auto count = static_cast<index_t>(buckets.size()), rows = d_ + 2;
    const auto map = device_.copy(maps.map), factor = device_.copy(maps.factor);
    const auto on_buckets = device_.copy(maps.buckets);
    const index_t a_time = std::clamp<index_t>(scratch_ / (count * (d_ + rows)), 1, slots);
    const auto difference = device_.template make<double>(count * a_time * d_),
               product = device_.template make<double>(count * a_time * rows);
    for (index_t begin = 0; begin < slots; begin += a_time) {
      const index_t n = std::min(a_time, slots - begin);
      for (index_t b = 0, end = 0; b < count; b = end) {  // the buckets of one problem share keys
        while (end < count && buckets[end].problem == buckets[b].problem) ++end;
        const index_t some = end - b, first = b * slots;
        double* const to = difference.data() + b * n * d_;
        device_.each(some * n * d_, key_differences{.y = keys_(problems_[buckets[b].problem].key_head),
                                                    .left = left + first,
                                                    .right = right + first,
                                                    .d = d_,
                                                    .begin = begin,
                                                    .slots = n,
                                                    .all = slots,
                                                    .to = to});
        multiply_(device_, matrix_products<double>{.batch = some,
                                                   .rows = n,
                                                   .columns = rows,
                                                   .depth = d_,
                                                   .a = {to, n * d_},
                                                   .b = {map.data() + b * rows * d_, rows * d_},
                                                   .c = {product.data() + b * n * rows, n * rows}});
      }
      device_.each(count * n, drawn_values{.product = product.data(),
                                           .buckets = on_buckets.data(),
                                           .factor = factor.data(),
                                           .left = left,
                                           .right = right,
                                           .position = groups_.position.data(),
                                           .width = d_,
                                           .begin = begin,
                                           .slots = n,
                                           .all = slots,
                                           .to = value});
    }
  }

  void write(const std::vector<bucket_draws>& buckets, const std::vector<double>& sums,
             std::vector<pair_sums>& results) {
    const double* x = sums.data();
    for (const auto& draws : buckets) {
      const auto& set = admitted(scores_of(draws));
      auto& to = results[draws.problem];
      for (index_t g = 0; g < groups_.host.groups(); ++g, x += sum_draws::width) {
        if (set.range[g].size() < 2) continue;
        const auto place = to.at(draws.bucket, g);
        to.sum[place] = x[0];
        to.weight[place] = x[values + 1];
        to.square[place] = x[values];
        to.pairs[place] = set.range[g].pairs();
        to.drawn[place] = draws.every ? 0 : static_cast<std::int64_t>(x[values + 2]);
        if (request_.terms) std::copy_n(x + 1, pair_terms, &to.term_sum[place * pair_terms]);
      }
    }
  }
  /// Adds to cells by group, on the host, since draws are few.
  void add_cells(const std::vector<bucket_draws>& buckets, index_t slots, const std::vector<double>& value,
                 const std::vector<std::int32_t>& left, const std::vector<std::int32_t>& right,
                 const std::vector<std::int32_t>& group, std::vector<pair_sums>& results) {
    const auto* const t = groups_.host.position.data();
    for (index_t b = 0; b < static_cast<index_t>(buckets.size()); ++b) {
      const auto& draws = buckets[b];
      if (draws.problem != cells_of_ || cells_.empty()) {
        fold_cells(results);
        cells_of_ = draws.problem;
        cells_.assign(groups_.host.groups(),
                      std::vector<double>(results[cells_of_].heatmap_sum.size() * backend::cell_stride));
      }
      const auto cells = backend::heatmap_cells::of(request_.heatmap_cell, results[cells_of_].heatmap_width);
      for (index_t pair = b * slots; pair < b * slots + draws.count; ++pair) {
        const index_t cell = cells.cell_of(cells.place(t[left[pair]], t[right[pair]]), scores_of(draws).tau);
        if (cell < 0) continue;
        double* const sums = &cells_[group[pair]][cell * backend::cell_stride];
        sums[0] += draws.weight;
        for (index_t v = 0; v < values; ++v) sums[1 + v] += draws.weight * value[pair * values + v];
      }
    }
  }
  /// Adds `cells_` to the sums of its problem. A problem without buckets gets cells of 0.
  void fold_cells(std::vector<pair_sums>& results) {
    for (auto& r : results)
      if (request_.terms && request_.heatmap_cell > 0 && r.cells.weight.empty())
        r.cells = blank_cells(r.heatmap_sum.size());
    if (cells_.empty()) return;
    auto& to = results[cells_of_];
    auto terms = backend::folded(cells_, to.heatmap_sum.size());
    to.heatmap_weight = terms.weight;
    for (std::size_t c = 0; c < to.heatmap_sum.size(); ++c) to.heatmap_sum[c] = terms.sum[c * values];
    if (request_.terms) to.cells = std::move(terms);
    cells_.clear();
  }

  const Device& device_;
  const Multiply& multiply_;
  index_t scratch_;
  const std::vector<pair_problem>& problems_;
  const pair_request& request_;
  device_keys<Device> groups_;
  keys_of_heads<Device, T, S> keys_;
  index_t d_;
  std::map<std::pair<index_t, double>, admitted_set> sets_;
  std::vector<std::int64_t> before_;
  std::vector<index_t> first_;
  std::vector<std::vector<double>> cells_;  ///< (groups) by cell, over the buckets of problem cells_of_
  index_t cells_of_ = -1;
};

}  // namespace qkgeom::thrust_kernels
