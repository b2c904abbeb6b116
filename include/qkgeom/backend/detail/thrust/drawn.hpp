// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/thrust/draws.hpp"
#include "qkgeom/backend/detail/thrust/products.hpp"

namespace qkgeom::thrust_kernels {

/// Drawn pairs of many heads and query buckets: draws, differences of keys, one product a problem that gives everything
/// the distributions say of them, values, and sums by group, each over many distributions at once. In f64.
template <class Device, class Multiply, class T, memory_space S>
class drawn_pairs {
  template <class F>
  using buffer = typename Device::template buffer<F>;
  static constexpr auto values = static_cast<std::size_t>(heatmap_terms::values);

 public:
  drawn_pairs(const Device& on, const Multiply& multiply, std::size_t scratch, const tensor_view<const T, S>& k,
              const keys_by_document& groups, const std::vector<pair_problem>& problems, const pair_request& request)
      : on_(on),
        multiply_(multiply),
        scratch_(static_cast<index_t>(scratch / sizeof(double))),
        problems_(problems),
        request_(request),
        groups_(on, groups),
        keys_(on, k, groups_),
        d_(k.dim) {}

  std::vector<pair_sums> operator()() {
    auto results = backend::empty_sums(groups_.host, problems_, request_);
    if (groups_.host.groups() <= 0) return results;
    require(groups_.n <= index_t{1} << 31, "drawn pairs: at most 2147483648 keys, not ", groups_.n);
    for (auto& r : results) start(r);
    const auto distributions = distributions_with_pairs();
    index_t slots = 0;
    for (const auto& l : distributions) slots = std::max(slots, static_cast<index_t>(l.count));
    const index_t a_distribution = slots * (2 * d_ + 4 + heatmap_terms::values) + d_ * (d_ + 2);
    const auto most =
        static_cast<std::size_t>(std::clamp<index_t>(scratch_ / std::max<index_t>(1, a_distribution), 1, 1 << 16));
    for (std::size_t at = 0; at < distributions.size(); at += most) {
      const auto end = std::min(distributions.size(), at + most);
      add_distributions(
          {distributions.begin() + static_cast<index_t>(at), distributions.begin() + static_cast<index_t>(end)}, slots,
          results);
    }
    groups_.require_finite();
    if (!results.empty()) fold_cells(results);
    return results;
  }

 private:
  /// The keys that a distribution admits, by group.
  struct admitted_set {
    index_t number = 0;
    std::vector<rank_range> range;
    std::int64_t pairs = 0;
  };

  const admitted_set& admitted(const score_distribution& distribution) {
    const auto [found, is_new] = sets_.try_emplace(std::pair(distribution.before, distribution.after));
    auto& set = found->second;
    if (!is_new) return set;
    set.number = static_cast<index_t>(sets_.size()) - 1;
    for (index_t g = 0; g < groups_.host.groups(); ++g) {
      set.range.push_back(admissible(groups_.host, g, distribution));
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

  std::vector<device_draws> distributions_with_pairs() {
    std::vector<device_draws> distributions;
    for (std::size_t p = 0; p < problems_.size(); ++p)
      for (std::size_t l = 0; l < problems_[p].distributions.size(); ++l) {
        const auto& distribution = problems_[p].distributions[l];
        if (distribution.empty()) continue;
        const auto& set = admitted(distribution);
        if (set.pairs == 0) continue;
        const auto count = std::min<std::int64_t>(set.pairs, request_.sample.pairs);
        distributions.push_back({static_cast<index_t>(p), static_cast<index_t>(l), set.number, set.pairs, count,
                                 set.pairs == count, static_cast<double>(set.pairs) / static_cast<double>(count)});
      }
    return distributions;
  }
  const score_distribution& scores_of(const device_draws& at) const {
    return problems_[at.problem].distributions[at.distribution];
  }

  void add_distributions(const std::vector<device_draws>& distributions, index_t slots,
                         std::vector<pair_sums>& results) {
    const auto count = static_cast<index_t>(distributions.size()), pairs = count * slots;
    const auto on_distributions = on_.copy(distributions);
    const auto before = on_.copy(before_);
    const auto first = on_.copy(first_);
    const auto left = on_.template make<std::int32_t>(pairs), right = on_.template make<std::int32_t>(pairs),
               group = on_.template make<std::int32_t>(pairs);
    on_.each(pairs, draw_keys{on_distributions.data(), before.data(), first.data(), groups_.host.groups(), slots,
                              request_.sample, left.data(), right.data(), group.data()});
    const auto value = on_.template make<double>(pairs * heatmap_terms::values);
    add_values(distributions, slots, left.data(), right.data(), value.data());
    const index_t sums = count * groups_.host.groups();
    const auto sum = on_.template make<double>(sums * sum_draws::width);
    on_.each(sums,
             sum_draws{value.data(), group.data(), on_distributions.data(), groups_.host.groups(), slots, sum.data()});
    write(distributions, sum.host(), results);
    if (request_.heatmap_cell > 0)
      add_cells(distributions, slots, value.host(), left.host(), right.host(), group.host(), results);
  }

  /// The rows that say everything of a difference, see drawn_distribution; width is that of the head.
  struct distribution_maps {
    std::vector<double> map, factor;
    std::vector<drawn_distribution> distributions;
  };
  distribution_maps maps_of(const std::vector<device_draws>& distributions) const {
    const auto d = static_cast<std::size_t>(d_), rows = d + 2;
    distribution_maps m{
        std::vector<double>(distributions.size() * rows * d), std::vector<double>(distributions.size() * d), {}};
    std::vector<double> h;
    for (std::size_t i = 0; i < distributions.size(); ++i) {
      const auto& problem = problems_[distributions[i].problem];
      if (i == 0 || distributions[i].problem != distributions[i - 1].problem) h = reflection(problem.reflector, d_);
      const auto& distribution = scores_of(distributions[i]);
      double* const map = m.map.data() + i * rows * d;
      const auto z = key_map(distribution, problem.reflector, d_);
      std::copy(z.begin(), z.end(), map);
      drawn_distribution made{0, distribution.variance.empty() ? 0.0 : distribution.variance[0],
                              distribution.variance.empty()};
      for (std::size_t j = 0; j < d; ++j) made.drift_mean += h[j] * distribution.mean[j];
      for (std::size_t j = 0; j < d; ++j) {
        map[d * d + j] = h[j];
        map[(d + 1) * d + j] = distribution.mean[j] - made.drift_mean * h[j];
      }
      for (std::size_t c = 0; made.factored && c < static_cast<std::size_t>(distribution.rank); ++c) {
        double& row = m.factor[i * d + c];
        for (std::size_t j = 0; j < d; ++j) row += map[c * d + j] * h[j];
        made.drift_variance += row * row;
      }
      m.distributions.push_back(made);
    }
    return m;
  }

  void add_values(const std::vector<device_draws>& distributions, index_t slots, const std::int32_t* left,
                  const std::int32_t* right, double* value) {
    const auto maps = maps_of(distributions);
    const auto count = static_cast<index_t>(distributions.size()), rows = d_ + 2;
    const auto map = on_.copy(maps.map), factor = on_.copy(maps.factor);
    const auto on_distributions = on_.copy(maps.distributions);
    const index_t a_time = std::clamp<index_t>(scratch_ / (count * (d_ + rows)), 1, slots);
    const auto difference = on_.template make<double>(count * a_time * d_),
               product = on_.template make<double>(count * a_time * rows);
    for (index_t begin = 0; begin < slots; begin += a_time) {
      const index_t n = std::min(a_time, slots - begin);
      for (index_t l = 0, end = 0; l < count; l = end) {  // distributions of one problem, which share their keys
        while (end < count && at(distributions, end).problem == at(distributions, l).problem) ++end;
        const index_t some = end - l, first = l * slots;
        const double* const y = keys_(problems_[at(distributions, l).problem].key_head);
        double* const to = difference.data() + l * n * d_;
        on_.each(some * n * d_, key_differences{y, left + first, right + first, d_, begin, n, slots, to});
        multiply_(on_, some, n, rows, d_, matrix_batch<const double>{to, n * d_},
                  matrix_batch<const double>{map.data() + l * rows * d_, rows * d_},
                  matrix_batch<double>{product.data() + l * n * rows, n * rows});
      }
      on_.each(count * n, drawn_values{product.data(), on_distributions.data(), factor.data(), left, right,
                                       groups_.position.data(), d_, begin, n, slots, value});
    }
  }
  static const device_draws& at(const std::vector<device_draws>& distributions, index_t l) { return distributions[l]; }

  void write(const std::vector<device_draws>& distributions, const std::vector<double>& sums,
             std::vector<pair_sums>& results) {
    const auto groups = static_cast<std::size_t>(groups_.host.groups());
    for (std::size_t l = 0; l < distributions.size(); ++l) {
      const auto& distribution = distributions[l];
      const auto& set = admitted(scores_of(distribution));
      auto& to = results[distribution.problem];
      for (std::size_t g = 0; g < groups; ++g) {
        if (set.range[g].size() < 2) continue;
        const double* const x = sums.data() + (l * groups + g) * sum_draws::width;
        const auto place = to.at(distribution.distribution, static_cast<index_t>(g));
        to.sum[place] = x[0];
        to.weight[place] = x[values + 1];
        to.square[place] = x[values];
        to.pairs[place] = set.range[g].pairs();
        to.drawn[place] = distribution.every ? 0 : static_cast<std::int64_t>(x[values + 2]);
        for (std::size_t v = 1; v < values && request_.terms; ++v) to.term_sum[place * pair_terms + v - 1] = x[v];
      }
    }
  }
  /// Cells keep sums by group, whose products are added up; there are few draws, so this is the host's work.
  void add_cells(const std::vector<device_draws>& distributions, index_t slots, const std::vector<double>& value,
                 const std::vector<std::int32_t>& left, const std::vector<std::int32_t>& right,
                 const std::vector<std::int32_t>& group, std::vector<pair_sums>& results) {
    const auto* const t = groups_.host.position.data();
    for (std::size_t l = 0; l < distributions.size(); ++l) {
      if (distributions[l].problem != cells_of_ || cells_.empty()) {
        fold_cells(results);
        cells_of_ = distributions[l].problem;
        cells_.assign(groups_.host.groups(),
                      std::vector<double>(results[cells_of_].heatmap_sum.size() * backend::cell_stride));
      }
      const auto cells = backend::heatmap_cells::of(request_.heatmap_cell, results[cells_of_].heatmap_width);
      const double w = distributions[l].weight;
      for (index_t s = 0; s < distributions[l].count; ++s) {
        const auto pair = l * static_cast<std::size_t>(slots) + static_cast<std::size_t>(s);
        const index_t cell = cells.cell_of(cells.place(t[left[pair]], t[right[pair]]), scores_of(distributions[l]).tau);
        if (cell < 0) continue;
        double* const sums = cells_[group[pair]].data() + static_cast<std::size_t>(cell) * backend::cell_stride;
        sums[0] += w;
        for (std::size_t v = 0; v < values; ++v) sums[1 + v] += w * value[pair * values + v];
      }
    }
  }
  /// What `cells_` holds into the sums of its problem. Without a distribution no cells are made, and a problem's are 0.
  void fold_cells(std::vector<pair_sums>& results) {
    for (auto& r : results)
      if (request_.terms && request_.heatmap_cell > 0 && r.cells.weight.empty())
        r.cells = blank_cells(r.heatmap_sum.size());
    if (cells_.empty()) return;
    auto& to = results[cells_of_];
    auto terms = blank_cells(to.heatmap_sum.size());
    for (const auto& cell : cells_) backend::fold(cell, terms);
    to.heatmap_weight = terms.weight;
    for (std::size_t c = 0; c < to.heatmap_sum.size(); ++c) to.heatmap_sum[c] = terms.sum[c * values];
    if (request_.terms) to.cells = std::move(terms);
    cells_.clear();
  }

  const Device& on_;
  const Multiply& multiply_;
  index_t scratch_;
  const std::vector<pair_problem>& problems_;
  const pair_request& request_;
  device_keys<Device> groups_;
  keys_of_head<Device, T, S> keys_;
  index_t d_;
  std::map<std::pair<index_t, double>, admitted_set> sets_;
  std::vector<std::int64_t> before_;
  std::vector<index_t> first_;
  std::vector<std::vector<double>> cells_;  ///< (groups) by cell, over the distributions of problem cells_of_
  index_t cells_of_ = -1;
};

}  // namespace qkgeom::thrust_kernels
