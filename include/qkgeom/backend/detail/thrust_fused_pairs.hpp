// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/pair_operands.hpp"
#include "qkgeom/backend/detail/pair_tile.hpp"
#include "qkgeom/backend/detail/thrust_fused_heat.hpp"

namespace qkgeom::thrust_kernels {

/// Exact f32 pair sums of many heads and laws, as many in a launch as `scratch` bytes of keys hold. `split`: keys are
/// two bf16 each, else one. With a heatmap, or with parts, or with a weight, or with none of them: not with two.
template <class Engine, class T, memory_space S>
class fused_pairs {
  using machine_type = std::remove_cvref_t<decltype(std::declval<const Engine&>().machine())>;
  template <class F>
  using buffer = typename machine_type::template buffer<F>;

 public:
  fused_pairs(const Engine& engine, std::size_t scratch, bool split, const tensor_view<const T, S>& k,
              const key_groups& groups, const std::vector<pair_problem>& problems, const pair_request& request)
      : engine_(engine),
        split_(split || request.parts),
        d_(k.dim),
        columns_((k.dim + tile::stage_k - 1) / tile::stage_k * tile::stage_k),
        problems_(problems),
        request_(request),
        groups_(engine.machine(), groups),
        example_(engine.machine().copy(examples_of(groups))),
        keys_(engine.machine(), k, groups_) {
    const auto a_law = static_cast<std::size_t>(groups_.n * (columns_ * 4 + 64));
    laws_a_launch_ = std::max<std::size_t>(1, scratch / std::max<std::size_t>(1, a_law));
  }

  /// Whether these programs do what is asked for.
  static bool does(const pair_request& request, bool weighted) {
    return request.sample.pairs == 0 && request.precision.value_or(usual_precision<T>) == pair_precision::f32 &&
           !(request.parts && (request.heatmap_cell > 0 || weighted));
  }

  template <class Weight>
  std::vector<pair_sums> operator()(const Weight& weight) {
    auto results = backend::empty_sums(groups_.host, problems_, request_);
    if (groups_.host.groups() <= 0 || problems_.empty()) return results;
    if (request_.parts)
      for (auto& r : results) r.part_sum.assign(r.sum.size() * pair_parts, 0.0);
    // A heatmap's width depends on the laws; the widest one holds them all.
    index_t width = 0;
    for (const auto& r : results) width = std::max(width, r.heatmap_width);
    std::vector<law_place> laws;
    for (std::size_t p = 0; p < problems_.size(); ++p)
      for (std::size_t l = 0; l < problems_[p].laws.size(); ++l)
        if (!problems_[p].laws[l].empty()) laws.push_back({static_cast<index_t>(p), static_cast<index_t>(l)});
    const auto& on = engine_.machine();
    const index_t cells = static_cast<index_t>(problems_.size()) * width * width;
    const auto sum = on.template make<unsigned long long>((Weight::given ? 4 : 2) * cells);
    on.fill(sum.data(), sum.size(), 0ull);
    std::vector<tile::fixed_point> units;
    if constexpr (Weight::given)
      if (request_.heatmap_cell > 0)
        units = heat_units(engine_, groups_, example_.data(), problems_, laws, plans_, weight);
    const auto on_units = on.copy(units);
    unsigned long long* const rest = Weight::given ? sum.data() + 2 * cells : nullptr;
    const tile::tile_heat heat{sum.data(),
                               sum.data() + cells,
                               rest,
                               rest ? rest + cells : nullptr,
                               on_units.data(),
                               backend::heatmap_cells::of(request_.heatmap_cell, width)};
    for (std::size_t at = 0; at < laws.size(); at += laws_a_launch_) {
      const auto end = std::min(laws.size(), at + laws_a_launch_);
      run({laws.begin() + static_cast<index_t>(at), laws.begin() + static_cast<index_t>(end)}, weight, heat, results);
    }
    if (request_.heatmap_cell > 0) read_heat(sum.host(), units, width, results);
    return results;
  }

 private:
  template <bool Split, bool Heat, bool Parts>
  struct kind {};
  const pair_problem& problem_of(const law_place& at) const { return problems_[static_cast<std::size_t>(at.problem)]; }
  const score_law& law_of(const law_place& at) const { return problem_of(at).laws[static_cast<std::size_t>(at.law)]; }

  static std::vector<std::int32_t> examples_of(const key_groups& groups) {
    auto example = groups.key_example;
    for (index_t g = 0; g < groups.groups() && groups.key_example.empty(); ++g)
      example.resize(static_cast<std::size_t>(groups.offset[static_cast<std::size_t>(g) + 1]),
                     groups.example[static_cast<std::size_t>(g)]);
    return example;
  }

  /// The keys of some laws as the programs read them: (laws, n, ...), and what else is one number a key
  /// (numbers, laws, n): the score, and with parts coordinate 1, mean . y of the others, and the cross term's.
  struct operands {
    buffer<bf16> high, low;
    buffer<float> norm, number;
    buffer<double> scale;
  };
  index_t numbers() const { return request_.parts ? 4 : 1; }

  template <class Weight>
  void run(const std::vector<law_place>& laws, const Weight& weight, const tile::tile_heat& heat,
           std::vector<pair_sums>& results) {
    const auto& on = engine_.machine();
    const auto count = static_cast<index_t>(laws.size());
    const index_t n = groups_.n;
    operands made{on.template make<bf16>(count * n * columns_),
                  on.template make<bf16>(split_ ? count * n * columns_ : 0), on.template make<float>(count * n),
                  on.template make<float>(numbers() * count * n), on.template make<double>(count)};
    std::vector<tile::tile_law> on_law(laws.size());
    for (index_t first = 0, end = 0; first < count; first = end) {  // laws of one problem, which share their keys
      const index_t most = std::max<index_t>(1, (index_t{1} << 26) / std::max<index_t>(1, n * columns_));
      const auto& place = laws[static_cast<std::size_t>(first)];
      while (end < count && end - first < most && laws[static_cast<std::size_t>(end)].problem == place.problem) ++end;
      prepare(laws, first, end, made, on_law);
    }
    tile_batch batch(n);
    for (const auto& place : laws) batch.add(plans_.of(groups_.host, law_of(place)));
    const auto device_laws = on.copy(on_law);
    const auto number = [&](index_t i) { return numbers() > i ? made.number.data() + i * count * n : nullptr; };
    const tile::tile_keys keys{{made.high.data(), made.low.data(), n, static_cast<int>(columns_)},
                               made.norm.data(),
                               number(0),
                               number(1),
                               number(2),
                               number(3),
                               groups_.position.data(),
                               example_.data()};
    const auto refused = on.template make<unsigned long long>(Weight::given ? count : 0);
    on.fill(refused.data(), refused.size(), none_refused);
    const auto launch = [&]<bool Split, bool Heat, bool Parts>(kind<Split, Heat, Parts>) {
      using program = tile::pair_tiles<Split, Heat, Weight, Parts>;
      const auto sums =
          batch.run(engine_, program::values, [&](const tile::tile_list& list, const tile::tile_sums& to) {
            return program{list, keys, device_laws.data(), made.scale.data(), to, heat, weight, refused.data()};
          });
      if (Weight::given) check_refused(laws, weight, refused.host());
      read(laws, sums, Weight::given, results);
    };
    if constexpr (Weight::given) {
      request_.heatmap_cell > 0 ? launch(kind<true, true, false>{}) : launch(kind<true, false, false>{});
    } else {
      if (request_.parts)
        launch(kind<true, false, true>{});
      else if (request_.heatmap_cell > 0)
        split_ ? launch(kind<true, true, false>{}) : launch(kind<false, true, false>{});
      else
        split_ ? launch(kind<true, false, false>{}) : launch(kind<false, false, false>{});
    }
  }

  /// Operands of laws [first, end) of one problem.
  void prepare(const std::vector<law_place>& laws, index_t first, index_t end, const operands& to,
               std::vector<tile::tile_law>& on_law) {
    const auto& on = engine_.machine();
    const index_t count = end - first, n = groups_.n, all = static_cast<index_t>(laws.size());
    const auto d = static_cast<std::size_t>(d_);
    const auto& problem = problem_of(laws[static_cast<std::size_t>(first)]);
    std::vector<double> maps(static_cast<std::size_t>(count * columns_) * d),
        rows(static_cast<std::size_t>(numbers() * count) * d);
    const auto h = request_.parts ? reflection(problem.reflector, d_) : std::vector<double>();
    for (index_t i = 0; i < count; ++i) {
      const auto& place = laws[static_cast<std::size_t>(first + i)];
      const auto& law = law_of(place);
      const auto map = key_map(law, problem.reflector, d_);
      std::copy(map.begin(), map.end(), maps.begin() + i * columns_ * d_);
      std::copy(law.mean.begin(), law.mean.end(), rows.begin() + i * d_);
      auto& made = on_law[static_cast<std::size_t>(first + i)];
      made = {law.tau, place.problem, 0, 0};
      if (request_.parts) add_part_rows(law, h, map, i, count, rows, made);
    }
    const auto on_maps = on.copy(maps), on_rows = on.copy(rows);
    const auto z = on.template make<double>(count * n * columns_),
               number = on.template make<double>(numbers() * count * n);
    const double* const y = keys_(problem.key_head);
    engine_.multiply(count, n, columns_, d_, matrix_batch<const double>{y, 0},
                     matrix_batch<const double>{on_maps.data(), columns_ * d_},
                     matrix_batch<double>{z.data(), n * columns_});
    engine_.multiply(index_t{1}, numbers() * count, n, d_, matrix_batch<const double>{on_rows.data(), 0},
                     matrix_batch<const double>{y, 0}, matrix_batch<double>{number.data(), 0});
    engine_.launch(tile::scale_program{z.data(), n, static_cast<int>(columns_), to.scale.data() + first}, count);
    const tile::split_program split{z.data(),
                                    number.data(),
                                    to.scale.data() + first,
                                    n,
                                    count,
                                    numbers(),
                                    static_cast<int>(columns_),
                                    to.high.data() + first * n * columns_,
                                    split_ ? to.low.data() + first * n * columns_ : nullptr,
                                    to.norm.data() + first * n,
                                    to.number.data() + first * n,
                                    all * n};
    engine_.launch(split, split.blocks());
  }

  /// Rows (numbers, count, d) that give what the parts need of a key: coordinate 1, mean . y of coordinates 2..d, and
  /// f . z of them, f being coordinate 1's part of a factor (none of a diagonal covariance): what coordinate 1's
  /// covariance with the others adds to v is twice the difference of that times the difference of coordinate 1.
  void add_part_rows(const score_law& law, const std::vector<double>& h, const std::vector<double>& map, index_t i,
                     index_t count, std::vector<double>& rows, tile::tile_law& made) const {
    const auto d = static_cast<std::size_t>(d_);
    const auto row = [&](index_t number) { return rows.data() + (number * count + i) * d_; };
    double mean = 0, variance = law.variance.empty() ? 0.0 : law.variance[0];
    for (std::size_t j = 0; j < d; ++j) mean += h[j] * law.mean[j];
    for (std::size_t j = 0; j < d; ++j) {
      row(1)[j] = h[j];
      row(2)[j] = law.mean[j] - mean * h[j];
    }
    for (std::size_t c = 0; law.variance.empty() && c < static_cast<std::size_t>(law.rank); ++c) {
      double f = 0;
      for (std::size_t j = 0; j < d; ++j) f += map[c * d + j] * h[j];
      for (std::size_t j = 0; j < d; ++j) row(3)[j] += f * (map[c * d + j] - f * h[j]);
      variance += f * f;
    }
    made.drift_mean = static_cast<float>(mean);
    made.drift_variance = static_cast<float>(variance);
  }

  void read(const std::vector<law_place>& laws, const std::vector<double>& sums, bool weighted,
            std::vector<pair_sums>& results) {
    std::size_t at = 0, all = 0;
    for (const auto& place : laws) all += plans_.of(groups_.host, law_of(place)).ranges.size();
    for (const auto& place : laws) {
      auto& r = results[static_cast<std::size_t>(place.problem)];
      for (const auto& range : plans_.of(groups_.host, law_of(place)).ranges) {
        const auto to = r.at(place.law, range.group);
        r.sum[to] = sums[at];
        r.pairs[to] = weighted ? static_cast<std::int64_t>(sums[2 * all + at]) : range.count * (range.count - 1) / 2;
        r.weight[to] = weighted ? sums[all + at] : static_cast<double>(r.pairs[to]);
        for (std::size_t p = 0; p < pair_parts && request_.parts; ++p)
          r.part_sum[to * pair_parts + p] = sums[(1 + p) * all + at];
        ++at;
      }
    }
  }

  /// Throws what the CPU throws for the first pair of a law whose weight is none.
  template <class Weight>
  void check_refused(const std::vector<law_place>& laws, const Weight& weight,
                     const std::vector<unsigned long long>& refused) const {
    for (std::size_t l = 0; l < refused.size(); ++l) {
      if (refused[l] == none_refused) continue;
      const auto i = static_cast<index_t>(refused[l]) / groups_.n, j = static_cast<index_t>(refused[l]) % groups_.n;
      const auto& g = groups_.host;
      const auto group = std::upper_bound(g.offset.begin(), g.offset.end(), i) - g.offset.begin() - 1;
      const auto range = backend::admissible(g, group, law_of(laws[l]));
      const index_t first = g.offset[static_cast<std::size_t>(group)] + range.begin;
      const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
      const auto example = [&](std::size_t key) {
        return g.key_example.empty() ? g.example[static_cast<std::size_t>(group)] : g.key_example[key];
      };
      const key_pair pair{i - first,     j - first,  range.size(), g.position[a],
                          g.position[b], example(a), example(b),   law_of(laws[l]).tau};
      backend::check_weight(weight(pair), pair.t_i, pair.t_j);
    }
  }

  static constexpr unsigned long long none_refused = std::numeric_limits<unsigned long long>::max();
  const Engine& engine_;
  bool split_;
  index_t d_, columns_;
  const std::vector<pair_problem>& problems_;
  const pair_request& request_;
  device_groups<machine_type> groups_;
  buffer<std::int32_t> example_;
  keys_of_head<machine_type, T, S> keys_;
  std::size_t laws_a_launch_ = 1;
  tile_plans plans_;
};

}  // namespace qkgeom::thrust_kernels
