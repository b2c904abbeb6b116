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
/// the laws say of them, values, and sums by group, each over many laws at once. In f64.
template <class Machine, class Multiply, class T, memory_space S>
class drawn_pairs {
  template <class F>
  using buffer = typename Machine::template buffer<F>;
  static constexpr auto values = static_cast<std::size_t>(heatmap_parts::values);

 public:
  drawn_pairs(const Machine& on, const Multiply& multiply, std::size_t scratch, const tensor_view<const T, S>& k,
              const key_groups& groups, const std::vector<pair_problem>& problems, const pair_request& request)
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
    const auto laws = laws_with_pairs();
    index_t slots = 0;
    for (const auto& l : laws) slots = std::max(slots, static_cast<index_t>(l.count));
    const index_t a_law = slots * (2 * d_ + 4 + heatmap_parts::values) + d_ * (d_ + 2);
    const auto most = static_cast<std::size_t>(std::clamp<index_t>(scratch_ / std::max<index_t>(1, a_law), 1, 1 << 16));
    for (std::size_t at = 0; at < laws.size(); at += most) {
      const auto end = std::min(laws.size(), at + most);
      add_laws({laws.begin() + static_cast<index_t>(at), laws.begin() + static_cast<index_t>(end)}, slots, results);
    }
    groups_.require_finite();
    if (!results.empty()) fold_cells(results);
    return results;
  }

 private:
  /// The keys that a law admits, by group.
  struct admitted_set {
    index_t number = 0;
    std::vector<rank_range> range;
    std::int64_t pairs = 0;
  };

  const admitted_set& admitted(const score_law& law) {
    const auto [found, is_new] = sets_.try_emplace(std::pair(law.before, law.after));
    auto& set = found->second;
    if (!is_new) return set;
    set.number = static_cast<index_t>(sets_.size()) - 1;
    for (index_t g = 0; g < groups_.host.groups(); ++g) {
      set.range.push_back(admissible(groups_.host, g, law));
      before_.push_back(set.pairs);
      first_.push_back(groups_.host.offset[static_cast<std::size_t>(g)] + set.range.back().begin);
      set.pairs += set.range.back().pairs();
    }
    before_.push_back(set.pairs);
    return set;
  }

  void start(pair_sums& to) const {
    to.drawn.assign(to.sum.size(), 0);
    to.square.assign(to.sum.size(), 0.0);
    if (request_.parts) to.part_sum.assign(to.sum.size() * pair_parts, 0.0);
  }

  std::vector<draws_of_law> laws_with_pairs() {
    std::vector<draws_of_law> laws;
    for (std::size_t p = 0; p < problems_.size(); ++p)
      for (std::size_t l = 0; l < problems_[p].laws.size(); ++l) {
        const auto& law = problems_[p].laws[l];
        if (law.empty()) continue;
        const auto& set = admitted(law);
        if (set.pairs == 0) continue;
        const auto count = std::min<std::int64_t>(set.pairs, request_.sample.pairs);
        laws.push_back({static_cast<index_t>(p), static_cast<index_t>(l), set.number, set.pairs, count,
                        set.pairs == count, static_cast<double>(set.pairs) / static_cast<double>(count)});
      }
    return laws;
  }
  const score_law& law_of(const draws_of_law& at) const {
    return problems_[static_cast<std::size_t>(at.problem)].laws[static_cast<std::size_t>(at.law)];
  }

  void add_laws(const std::vector<draws_of_law>& laws, index_t slots, std::vector<pair_sums>& results) {
    const auto count = static_cast<index_t>(laws.size()), pairs = count * slots;
    const auto on_laws = on_.copy(laws);
    const auto before = on_.copy(before_);
    const auto first = on_.copy(first_);
    const auto left = on_.template make<std::int32_t>(pairs), right = on_.template make<std::int32_t>(pairs),
               group = on_.template make<std::int32_t>(pairs);
    on_.each(pairs, draw_keys{on_laws.data(), before.data(), first.data(), groups_.host.groups(), slots,
                              request_.sample, left.data(), right.data(), group.data()});
    const auto value = on_.template make<double>(pairs * heatmap_parts::values);
    add_values(laws, slots, left.data(), right.data(), value.data());
    const index_t sums = count * groups_.host.groups();
    const auto sum = on_.template make<double>(sums * sum_draws::width);
    on_.each(sums, sum_draws{value.data(), group.data(), on_laws.data(), groups_.host.groups(), slots, sum.data()});
    write(laws, sum.host(), results);
    if (request_.heatmap_cell > 0)
      add_cells(laws, slots, value.host(), left.host(), right.host(), group.host(), results);
  }

  /// The rows that say everything of a difference, see drawn_law; width is that of the head.
  struct law_maps {
    std::vector<double> map, factor;
    std::vector<drawn_law> laws;
  };
  law_maps maps_of(const std::vector<draws_of_law>& laws) const {
    const auto d = static_cast<std::size_t>(d_), rows = d + 2;
    law_maps m{std::vector<double>(laws.size() * rows * d), std::vector<double>(laws.size() * d), {}};
    std::vector<double> h;
    for (std::size_t i = 0; i < laws.size(); ++i) {
      const auto& problem = problems_[static_cast<std::size_t>(laws[i].problem)];
      if (i == 0 || laws[i].problem != laws[i - 1].problem) h = reflection(problem.reflector, d_);
      const auto& law = law_of(laws[i]);
      double* const map = m.map.data() + i * rows * d;
      const auto z = key_map(law, problem.reflector, d_);
      std::copy(z.begin(), z.end(), map);
      drawn_law made{0, law.variance.empty() ? 0.0 : law.variance[0], law.variance.empty()};
      for (std::size_t j = 0; j < d; ++j) made.drift_mean += h[j] * law.mean[j];
      for (std::size_t j = 0; j < d; ++j) {
        map[d * d + j] = h[j];
        map[(d + 1) * d + j] = law.mean[j] - made.drift_mean * h[j];
      }
      for (std::size_t c = 0; made.factored && c < static_cast<std::size_t>(law.rank); ++c) {
        double& row = m.factor[i * d + c];
        for (std::size_t j = 0; j < d; ++j) row += map[c * d + j] * h[j];
        made.drift_variance += row * row;
      }
      m.laws.push_back(made);
    }
    return m;
  }

  void add_values(const std::vector<draws_of_law>& laws, index_t slots, const std::int32_t* left,
                  const std::int32_t* right, double* value) {
    const auto maps = maps_of(laws);
    const auto count = static_cast<index_t>(laws.size()), rows = d_ + 2;
    const auto map = on_.copy(maps.map), factor = on_.copy(maps.factor);
    const auto on_laws = on_.copy(maps.laws);
    const index_t a_time = std::clamp<index_t>(scratch_ / (count * (d_ + rows)), 1, slots);
    const auto difference = on_.template make<double>(count * a_time * d_),
               product = on_.template make<double>(count * a_time * rows);
    for (index_t begin = 0; begin < slots; begin += a_time) {
      const index_t n = std::min(a_time, slots - begin);
      for (index_t l = 0, end = 0; l < count; l = end) {  // laws of one problem, which share their keys
        while (end < count && at(laws, end).problem == at(laws, l).problem) ++end;
        const index_t some = end - l, first = l * slots;
        const double* const y = keys_(problems_[static_cast<std::size_t>(at(laws, l).problem)].key_head);
        double* const to = difference.data() + l * n * d_;
        on_.each(some * n * d_, key_differences{y, left + first, right + first, d_, begin, n, slots, to});
        multiply_(on_, some, n, rows, d_, matrix_batch<const double>{to, n * d_},
                  matrix_batch<const double>{map.data() + l * rows * d_, rows * d_},
                  matrix_batch<double>{product.data() + l * n * rows, n * rows});
      }
      on_.each(count * n, drawn_values{product.data(), on_laws.data(), factor.data(), left, right,
                                       groups_.position.data(), d_, begin, n, slots, value});
    }
  }
  static const draws_of_law& at(const std::vector<draws_of_law>& laws, index_t l) {
    return laws[static_cast<std::size_t>(l)];
  }

  void write(const std::vector<draws_of_law>& laws, const std::vector<double>& sums, std::vector<pair_sums>& results) {
    const auto groups = static_cast<std::size_t>(groups_.host.groups());
    for (std::size_t l = 0; l < laws.size(); ++l) {
      const auto& law = laws[l];
      const auto& set = admitted(law_of(law));
      auto& to = results[static_cast<std::size_t>(law.problem)];
      for (std::size_t g = 0; g < groups; ++g) {
        if (set.range[g].size() < 2) continue;
        const double* const x = sums.data() + (l * groups + g) * sum_draws::width;
        const auto place = to.at(law.law, static_cast<index_t>(g));
        to.sum[place] = x[0];
        to.weight[place] = x[values + 1];
        to.square[place] = x[values];
        to.pairs[place] = set.range[g].pairs();
        to.drawn[place] = law.every ? 0 : static_cast<std::int64_t>(x[values + 2]);
        for (std::size_t v = 1; v < values && request_.parts; ++v) to.part_sum[place * pair_parts + v - 1] = x[v];
      }
    }
  }
  /// Cells keep sums by group, whose products are added up; there are few draws, so this is the host's work.
  void add_cells(const std::vector<draws_of_law>& laws, index_t slots, const std::vector<double>& value,
                 const std::vector<std::int32_t>& left, const std::vector<std::int32_t>& right,
                 const std::vector<std::int32_t>& group, std::vector<pair_sums>& results) {
    const auto* const t = groups_.host.position.data();
    for (std::size_t l = 0; l < laws.size(); ++l) {
      if (laws[l].problem != cells_of_ || cells_.empty()) {
        fold_cells(results);
        cells_of_ = laws[l].problem;
        cells_.assign(static_cast<std::size_t>(groups_.host.groups()),
                      std::vector<double>(results[static_cast<std::size_t>(cells_of_)].heatmap_sum.size() *
                                          backend::cell_stride));
      }
      const auto cells =
          backend::heatmap_cells::of(request_.heatmap_cell, results[static_cast<std::size_t>(cells_of_)].heatmap_width);
      const double w = laws[l].weight;
      for (index_t s = 0; s < laws[l].count; ++s) {
        const auto pair = l * static_cast<std::size_t>(slots) + static_cast<std::size_t>(s);
        const index_t cell = cells.cell_of(cells.place(t[left[pair]], t[right[pair]]), law_of(laws[l]).tau);
        if (cell < 0) continue;
        double* const sums = cells_[static_cast<std::size_t>(group[pair])].data() +
                             static_cast<std::size_t>(cell) * backend::cell_stride;
        sums[0] += w;
        for (std::size_t v = 0; v < values; ++v) sums[1 + v] += w * value[pair * values + v];
      }
    }
  }
  /// What `cells_` holds into the sums of its problem. Without a law no cells are made, and a problem's are 0.
  void fold_cells(std::vector<pair_sums>& results) {
    for (auto& r : results)
      if (request_.parts && request_.heatmap_cell > 0 && r.cells.weight.empty())
        r.cells = blank_cells(r.heatmap_sum.size());
    if (cells_.empty()) return;
    auto& to = results[static_cast<std::size_t>(cells_of_)];
    auto parts = blank_cells(to.heatmap_sum.size());
    for (const auto& cell : cells_) backend::fold(cell, parts);
    to.heatmap_weight = parts.weight;
    for (std::size_t c = 0; c < to.heatmap_sum.size(); ++c) to.heatmap_sum[c] = parts.sum[c * values];
    if (request_.parts) to.cells = std::move(parts);
    cells_.clear();
  }

  const Machine& on_;
  const Multiply& multiply_;
  index_t scratch_;
  const std::vector<pair_problem>& problems_;
  const pair_request& request_;
  device_groups<Machine> groups_;
  keys_of_head<Machine, T, S> keys_;
  index_t d_;
  std::map<std::pair<index_t, double>, admitted_set> sets_;
  std::vector<std::int64_t> before_;
  std::vector<index_t> first_;
  std::vector<std::vector<double>> cells_;  ///< (groups) by cell, over the laws of problem cells_of_
  index_t cells_of_ = -1;
};

}  // namespace qkgeom::thrust_kernels
