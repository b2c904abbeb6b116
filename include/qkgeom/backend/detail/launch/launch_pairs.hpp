// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "qkgeom/backend/detail/launch/launch_heat.hpp"
#include "qkgeom/backend/detail/launch/launch_operands.hpp"

namespace qkgeom::thrust_kernels {

/// Sums over all pairs, in f32. A launch takes the query buckets and heads whose keys and sums fit `scratch` bytes.
/// `split`: two bf16 per value, else one; with a weight or terms always two.
template <class Launcher, class T, memory_space S>
class tile_pairs {
  using device_type = std::remove_cvref_t<decltype(std::declval<const Launcher&>().device())>;
  template <class F>
  using buffer = typename device_type::template buffer<F>;

 public:
  tile_pairs(const Launcher& launcher, std::size_t scratch, bool split, const tensor_view<const T, S>& k,
             const keys_by_document& groups, const std::vector<pair_problem>& problems, const pair_request& request)
      : launcher_(launcher),
        scratch_(static_cast<index_t>(scratch)),
        split_(split || request.terms),
        d_(k.dim),
        columns_(round_up(k.dim, tile::stage_k)),
        problems_(problems),
        request_(request),
        groups_(launcher.device(), groups),
        document_(launcher.device().copy(documents_of(groups))),
        keys_(launcher.device(), k, groups_) {}

  /// Returns whether the tile programs take the request. Keys and scores are brought to order 1 in f64, terms are not.
  static bool takes(const device_type& device, const tensor_view<const T, S>& k,
                    const std::vector<pair_problem>& problems, const pair_request& request, bool weighted) {
    if (request.sample.pairs > 0 || request.precision.value_or(usual_precision<T>) != pair_precision::f32) return false;
    return !request.terms || (!weighted && backend::f32_holds(backend::largest_of(problems)) && f32_holds(device, k));
  }

  template <class Weight>
  std::vector<pair_sums> operator()(const Weight& weight) {
    auto results = backend::empty_sums(groups_.host, problems_, request_);
    if (groups_.host.groups() <= 0 || problems_.empty()) return results;
    if (request_.terms)
      for (auto& r : results) r.term_sum.assign(r.sum.size() * pair_terms, 0.0);
    // A heatmap's width depends on the distributions; the widest one holds them all.
    index_t width = 0;
    for (const auto& r : results) width = std::max(width, r.heatmap_width);
    if (request_.terms && width > 0) {
      add_with_cells(width, weight, results);
      groups_.require_finite();
      return results;
    }
    const auto buckets = buckets_of(0, static_cast<index_t>(problems_.size()));
    const auto& device = launcher_.device();
    const index_t cells = static_cast<index_t>(problems_.size()) * width * width;
    const auto sum = device.template make<unsigned long long>((Weight::given ? 4 : 2) * cells);
    device.fill(sum.data(), sum.size(), 0ull);
    std::vector<tile::fixed_point> units;
    if constexpr (Weight::given)
      if (width > 0) units = heat_units(launcher_, groups_, document_.data(), problems_, buckets, plans_, weight);
    const auto on_units = device.copy(units);
    unsigned long long* const low = Weight::given ? sum.data() + 2 * cells : nullptr;
    const tile::tile_heat heat{.sum = sum.data(),
                               .weight = sum.data() + cells,
                               .sum_low = low,
                               .weight_low = low ? low + cells : nullptr,
                               .unit = on_units.data(),
                               .cells = backend::heatmap_cells::of(request_.heatmap_cell, width)};
    run_all(buckets, 0, weight, heat, results);
    groups_.require_finite();
    if (width > 0) read_heat(sum.host(), units, width, results);
    return results;
  }

 private:
  template <bool Split, bool Heat, bool Terms>
  struct kind {};

  /// Returns the query buckets of problems [first, end) that have a score distribution.
  std::vector<bucket_place> buckets_of(index_t first, index_t end) const {
    std::vector<bucket_place> buckets;
    for (index_t p = first; p < end; ++p)
      for (index_t l = 0; l < static_cast<index_t>(problems_[p].distributions.size()); ++l)
        if (!scores_at(problems_, {p, l}).empty()) buckets.push_back({p, l});
    return buckets;
  }

  /// Launches over buckets in the given order; heatmaps are counted from problem `first_problem` on.
  template <class Weight>
  void run_all(const std::vector<bucket_place>& buckets, index_t first_problem, const Weight& weight,
               const tile::tile_heat& heat, std::vector<pair_sums>& results) {
    constexpr auto f64 = static_cast<index_t>(sizeof(double));
    const index_t values = Weight::given    ? 3
                           : request_.terms ? 1 + pair_terms
                                            : 1,
                  n = groups_.n, head_bytes = n * d_ * f64, key_bytes = columns_ * 4 + 64;
    const auto head_of = [&](const bucket_place& at) { return problems_[at.problem].key_head; };
    for (auto first = buckets.begin(), end = first; first != buckets.end(); first = end) {
      index_t low = head_of(*first), high = low, bytes = 0;  // key heads
      for (; end != buckets.end(); ++end) {
        const index_t lower = std::min(low, head_of(*end)), higher = std::max(high, head_of(*end));
        bytes += n * key_bytes + values * f64 * (n + plans_.of(groups_.host, scores_of(*end)).tiles);
        if (end != first && bytes + (higher - lower + 1) * head_bytes > scratch_) break;
        low = lower, high = higher;
      }
      run({first, end}, first_problem, {low, high - low + 1}, weight, heat, results);
    }
  }

  /// Adds terms by cell from sums by group, for the problems that fit `scratch` at a time.
  template <class Weight>
  void add_with_cells(index_t width, const Weight& weight, std::vector<pair_sums>& results) {
    const auto& device = launcher_.device();
    const index_t cells = width * width, groups = groups_.host.groups(),
                  problem_words = tile::group_cells::place(groups * cells, 0),
                  some = std::max<index_t>(1, scratch_ / static_cast<index_t>(sizeof(double)) / problem_words);
    for (index_t first = 0; first < static_cast<index_t>(problems_.size()); first += some) {
      const index_t end = std::min(first + some, static_cast<index_t>(problems_.size()));
      std::vector<tile::fixed_point> units;
      for (index_t p = first; p < end; ++p) add_cell_units(problems_[p], units);
      const auto sum = device.template make<unsigned long long>((end - first) * problem_words);
      device.fill(sum.data(), sum.size(), 0ull);
      const auto on_units = device.copy(units);
      const tile::group_cells by_group{sum.data(), on_units.data(), groups};
      const tile::tile_heat heat{.cells = backend::heatmap_cells::of(request_.heatmap_cell, width),
                                 .by_group = by_group};
      run_all(buckets_of(first, end), first, weight, heat, results);
      const auto folded = device.template make<double>((end - first) * cells * fold_groups::width);
      device.each((end - first) * cells, fold_groups{by_group, cells, folded.data()});
      const auto values = folded.host();
      for (index_t p = first; p < end; ++p)
        read_cells(values.data() + (p - first) * cells * fold_groups::width, width, results[p]);
    }
  }
  void add_cell_units(const pair_problem& problem, std::vector<tile::fixed_point>& to) {
    const auto& device = launcher_.device();
    const auto square = device.template make<double>(groups_.n);
    device.each(groups_.n, square_norms{keys_(problem.key_head), d_, square.data()});
    double largest = 0, pairs = 0;
    for (const double x : square.host()) largest = std::max(largest, x);
    for (const auto& scores : problem.distributions)
      if (!scores.empty())
        for (const auto& r : plans_.of(groups_.host, scores).ranges)
          pairs += 0.5 * static_cast<double>(r.count * (r.count - 1));
    const auto units = cell_units(problem, std::sqrt(largest), pairs);
    to.insert(to.end(), units.begin(), units.end());
  }
  const score_distribution& scores_of(const bucket_place& at) const { return scores_at(problems_, at); }

  static std::vector<std::int32_t> documents_of(const keys_by_document& groups) {
    auto document = groups.key_document;
    for (index_t g = 0; g < groups.groups() && groups.key_document.empty(); ++g)
      document.resize(groups.offset[g + 1], groups.document[g]);
    return document;
  }

  struct head_range {
    index_t first, count;
  };

  /// Runs one launch; `heads` are the key heads of its problems.
  template <class Weight>
  void run(const std::vector<bucket_place>& buckets, index_t first_problem, const head_range& heads,
           const Weight& weight, const tile::tile_heat& heat, std::vector<pair_sums>& results) {
    const auto& device = launcher_.device();
    const auto count = static_cast<index_t>(buckets.size());
    const tile_operands made(launcher_, {groups_.n, d_, columns_, split_ || Weight::given, request_.terms}, problems_,
                             buckets, first_problem, keys_(heads.first, heads.count), heads.first);
    std::vector<const tile::tile_plan*> plans;
    for (const auto& place : buckets) plans.push_back(&plans_.of(groups_.host, scores_of(place)));
    const tile_batch batch(groups_.n, plans);
    const auto keys = made.keys(groups_.position.data(), document_.data());
    const auto refused = device.template make<unsigned long long>(Weight::given ? count : 0);
    device.fill(refused.data(), refused.size(), none_refused);
    const auto launch = [&]<bool Split, bool Heat, bool Terms>(kind<Split, Heat, Terms>) {
      using program = tile::pair_tiles<Split, Heat, Weight, Terms>;
      const auto sums =
          batch.run(launcher_, program::values, [&](const tile::tile_list& list, const tile::tile_sums& to) {
            return program{list, keys, made.buckets(), made.scale(), to, heat, weight, refused.data()};
          });
      if (Weight::given) check_refused(buckets, weight, refused.host());
      read(buckets, sums, Weight::given, results);
    };
    if constexpr (Weight::given) {
      request_.heatmap_cell > 0 ? launch(kind<true, true, false>{}) : launch(kind<true, false, false>{});
    } else {
      if (request_.terms)
        request_.heatmap_cell > 0 ? launch(kind<true, true, true>{}) : launch(kind<true, false, true>{});
      else if (request_.heatmap_cell > 0)
        split_ ? launch(kind<true, true, false>{}) : launch(kind<false, true, false>{});
      else
        split_ ? launch(kind<true, false, false>{}) : launch(kind<false, false, false>{});
    }
  }

  void read(const std::vector<bucket_place>& buckets, const std::vector<double>& sums, bool weighted,
            std::vector<pair_sums>& results) {
    std::size_t at = 0, all = 0;
    for (const auto& place : buckets) all += plans_.of(groups_.host, scores_of(place)).ranges.size();
    for (const auto& place : buckets) {
      auto& r = results[place.problem];
      for (const auto& range : plans_.of(groups_.host, scores_of(place)).ranges) {
        const auto to = r.at(place.bucket, range.group);
        r.sum[to] = sums[at];
        r.pairs[to] = weighted ? static_cast<std::int64_t>(sums[2 * all + at]) : range.count * (range.count - 1) / 2;
        r.weight[to] = weighted ? sums[all + at] : static_cast<double>(r.pairs[to]);
        for (std::size_t term = 0; term < pair_terms && request_.terms; ++term)
          r.term_sum[to * pair_terms + term] = sums[(1 + term) * all + at];
        ++at;
      }
    }
  }

  /// Throws the CPU's error for the first pair of a bucket whose weight is negative or not finite.
  template <class Weight>
  void check_refused(const std::vector<bucket_place>& buckets, const Weight& weight,
                     const std::vector<unsigned long long>& refused) const {
    for (std::size_t b = 0; b < refused.size(); ++b) {
      if (refused[b] == none_refused) continue;
      const auto i = static_cast<index_t>(refused[b]) / groups_.n, j = static_cast<index_t>(refused[b]) % groups_.n;
      const auto& g = groups_.host;
      const auto group = std::upper_bound(g.offset.begin(), g.offset.end(), i) - g.offset.begin() - 1;
      const auto range = admissible(g, group, scores_of(buckets[b]));
      const index_t first = g.offset[group] + range.begin;
      const auto document = [&](index_t key) {
        return g.key_document.empty() ? g.document[group] : g.key_document[key];
      };
      const key_pair pair{.i = i - first,
                          .j = j - first,
                          .keys = range.size(),
                          .t_i = g.position[i],
                          .t_j = g.position[j],
                          .document_i = document(i),
                          .document_j = document(j),
                          .tau = scores_of(buckets[b]).tau};
      backend::check_weight(weight(pair), pair.t_i, pair.t_j);
    }
  }

  static constexpr unsigned long long none_refused = std::numeric_limits<unsigned long long>::max();
  const Launcher& launcher_;
  index_t scratch_;
  bool split_;
  index_t d_, columns_;
  const std::vector<pair_problem>& problems_;
  const pair_request& request_;
  device_keys<device_type> groups_;
  buffer<std::int32_t> document_;
  keys_of_heads<device_type, T, S> keys_;
  tile_plans plans_;
};

}  // namespace qkgeom::thrust_kernels
