// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "qkgeom/backend/cuda_resources.cuh"
#include "qkgeom/backend/detail/cuda_tile.cuh"
#include "qkgeom/backend/detail/thrust_pairs.hpp"

namespace qkgeom::cuda_kernels {

using thrust_kernels::device_groups;

/// scale[law] = the power of two that brings |z|^2 of the law's first keys to order 1; one block a law.
static __global__ void law_scales(const double* z, index_t n, int width, double* scale) {
  __shared__ double part[256];
  const index_t sampled = n < 256 ? n : 256;
  const double* const rows = z + static_cast<index_t>(blockIdx.x) * n * width;
  double sum = 0;
  for (index_t i = threadIdx.x; i < sampled * width; i += 256) sum += rows[i] * rows[i];
  part[threadIdx.x] = sum;
  for (int step = 128; step > 0; step /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < step) part[threadIdx.x] += part[threadIdx.x + static_cast<unsigned>(step)];
  }
  if (threadIdx.x > 0) return;
  scale[blockIdx.x] = backend::unit_scale(sampled > 0 ? part[0] / static_cast<double>(sampled) : 0.0);
}

/// Scaled keys as pairs of bf16, with the norm that their products have, and scores; one warp a key of a law.
template <bool Split>
static __global__ void split_keys(const double* z, const double* score, const double* scale, index_t n, int width,
                                  index_t items, bf16* high, bf16* low, float* norm, float* scaled_score) {
  const index_t item = (static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (item >= items) return;
  const double s = scale[item / n];
  float sum = 0;
  for (int c = lane; c < width; c += 32) {
    const auto x = tile::split_of(static_cast<float>(s * z[item * width + c]));
    high[item * width + c] = x.high;
    const float h = x.high;
    if constexpr (Split) {
      low[item * width + c] = x.low;
      sum += tile::split_square(x);
    } else {
      sum += h * h;
    }
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane > 0) return;
  norm[item] = sum;
  scaled_score[item] = static_cast<float>(s * score[item]);
}

/// Exact pair sums of many heads and laws, as many in a launch as `scratch` bytes of keys hold.
template <class Machine, bool Split>
class fused_pairs {
  template <class T>
  using buffer = typename Machine::template buffer<T>;

 public:
  fused_pairs(const Machine& on, const handles& use, std::size_t scratch) : on_(on), use_(use), scratch_(scratch) {}

  template <class T, memory_space S>
  std::vector<pair_sums> operator()(const tensor_view<const T, S>& k, const key_groups& groups,
                                    const std::vector<pair_problem>& problems, const pair_request& request) {
    auto results = backend::empty_sums(groups, problems, request);
    if (groups.groups() <= 0 || problems.empty()) return results;
    const device_groups<Machine> on_groups(on_, groups);
    std::vector<std::int32_t> group_of_key;
    for (index_t g = 0; g < groups.groups(); ++g)
      group_of_key.resize(static_cast<std::size_t>(groups.offset[static_cast<std::size_t>(g) + 1]),
                          static_cast<std::int32_t>(g));
    const auto group = on_.copy(group_of_key);
    // A heatmap's width depends on the laws; the widest one holds them all.
    index_t width = 0;
    for (const auto& r : results) width = std::max(width, r.heatmap_width);
    const index_t cells = width * width;
    const auto heat_sum = on_.template make<unsigned long long>(static_cast<index_t>(problems.size()) * cells);
    const auto heat_count = on_.template make<unsigned long long>(heat_sum.size());
    on_.fill(heat_sum.data(), heat_sum.size(), 0ull);
    on_.fill(heat_count.data(), heat_count.size(), 0ull);
    const tile_heat heat{heat_sum.data(), heat_count.data(), backend::heatmap_cells::of(request.heatmap_cell, width)};

    const index_t columns = (k.dim + stage_k - 1) / stage_k * stage_k;
    const auto a_law = static_cast<std::size_t>(on_groups.n * (columns * 4 + 24));
    const auto most = static_cast<index_t>(std::max<std::size_t>(1, scratch_ / std::max<std::size_t>(1, a_law)));
    std::vector<law_place> laws;
    for (std::size_t p = 0; p < problems.size(); ++p)
      for (std::size_t l = 0; l < problems[p].laws.size(); ++l)
        if (!problems[p].laws[l].empty()) laws.push_back({static_cast<index_t>(p), static_cast<index_t>(l)});
    for (std::size_t at = 0; at < laws.size(); at += static_cast<std::size_t>(most)) {
      const std::vector<law_place> some(
          laws.begin() + static_cast<std::ptrdiff_t>(at),
          laws.begin() + static_cast<std::ptrdiff_t>(std::min(laws.size(), at + static_cast<std::size_t>(most))));
      run(k, on_groups, group.data(), problems, some, columns, request.heatmap_cell > 0, heat, results);
    }
    if (request.heatmap_cell > 0) read_heat(heat_sum.host(), heat_count.host(), width, results);
    return results;
  }

 private:
  struct law_place {
    index_t problem, law;
  };

  const tile_plan& plan_of(const key_groups& groups, const score_law& law) {
    const auto key = std::pair(law.before, law.after);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    return plans_.emplace(key, tile_plan(backend::ranges_of(groups, law))).first->second;
  }

  template <class T, memory_space S>
  void run(const tensor_view<const T, S>& k, const device_groups<Machine>& groups, const std::int32_t* group,
           const std::vector<pair_problem>& problems, const std::vector<law_place>& laws, index_t columns,
           bool with_heat, const tile_heat& heat, std::vector<pair_sums>& results) {
    const auto count = static_cast<index_t>(laws.size());
    const index_t n = groups.n;
    const auto high = on_.template make<bf16>(count * n * columns);
    const auto low = on_.template make<bf16>(Split ? count * n * columns : 0);
    const auto norm = on_.template make<float>(count * n), score = on_.template make<float>(count * n);
    for (index_t first = 0; first < count;) {  // laws of one problem at a time, which share their keys
      index_t end = first + 1;
      const index_t most = std::max<index_t>(1, (index_t{1} << 26) / std::max<index_t>(1, n * columns));
      while (end < count && end - first < most &&
             laws[static_cast<std::size_t>(end)].problem == laws[static_cast<std::size_t>(first)].problem)
        ++end;
      const auto& problem = problems[static_cast<std::size_t>(laws[static_cast<std::size_t>(first)].problem)];
      if (first == 0 || problem.key_head != key_head_ || !y_) {
        key_head_ = problem.key_head;
        y_ = std::make_unique<qkgeom::buffer<double, typename Machine::memory_type>>(groups.centred(on_, k, key_head_));
      }
      prepare(problem, laws, first, end, k.dim, columns, n, high.data() + first * n * columns,
              Split ? low.data() + first * n * columns : nullptr, norm.data() + first * n, score.data() + first * n);
      first = end;
    }
    std::vector<tile_law> on_law;
    std::vector<tile_span> spans;
    std::vector<sum_span> sums;
    index_t tiles = 0;
    for (std::size_t l = 0; l < laws.size(); ++l) {
      const auto& law = problems[static_cast<std::size_t>(laws[l].problem)].laws[static_cast<std::size_t>(laws[l].law)];
      const auto& plan = plan_of(groups.host, law);
      on_law.push_back({law.after, law.tau, law.before, laws[l].problem});
      for (auto s : plan.spans) {
        s.first_tile += tiles;
        s.law = static_cast<std::int32_t>(l);
        spans.push_back(s);
      }
      for (auto s : plan.sums) {
        const index_t from = s.tiles ? tiles : static_cast<index_t>(l) * n;
        s.begin += from;
        s.end += from;
        sums.push_back(s);
      }
      tiles += plan.tiles;
    }
    if (tiles == 0) return;
    const auto device_laws = on_.copy(on_law);
    const auto device_spans = on_.copy(spans);
    const auto device_sums = on_.copy(sums);
    const auto by_tile = on_.template make<double>(tiles), by_key = on_.template make<double>(count * n),
               found = on_.template make<double>(static_cast<index_t>(sums.size()));
    const tile_keys keys{high.data(), Split ? low.data() : high.data(), norm.data(), score.data(),
                         group,       groups.position.data(),           n,           static_cast<int>(columns)};
    constexpr index_t most_blocks = index_t{1} << 30;
    for (index_t first = 0; first < tiles; first += most_blocks) {
      const auto blocks = static_cast<unsigned>(std::min(most_blocks, tiles - first));
      const tile_sums out{by_tile.data() + first, by_key.data()};
      launch_tiles(Split, with_heat, blocks, keys, device_laws.data(), device_spans.data(), device_spans.size(), first,
                   out, heat, on_.memory.stream());
    }
    launch_sums(device_sums.data(), device_sums.size(), tile_sums{by_tile.data(), by_key.data()}, found.data(),
                on_.memory.stream());
    const auto value = found.host();
    std::size_t at = 0;
    for (const auto& place : laws) {
      auto& r = results[static_cast<std::size_t>(place.problem)];
      const auto& law = problems[static_cast<std::size_t>(place.problem)].laws[static_cast<std::size_t>(place.law)];
      for (const auto& range : plan_of(groups.host, law).ranges) {
        const auto to = r.at(place.law, range.group);
        r.sum[to] = value[at++];
        r.pairs[to] = range.count * (range.count - 1) / 2;
        r.weight[to] = static_cast<double>(r.pairs[to]);
      }
    }
  }

  /// Split keys, norms and scores of laws [first, end) of one problem.
  void prepare(const pair_problem& problem, const std::vector<law_place>& laws, index_t first, index_t end, index_t d,
               index_t columns, index_t n, bf16* high, bf16* low, float* norm, float* score) const {
    const auto count = end - first;
    std::vector<double> maps(static_cast<std::size_t>(count * columns * d)), means;
    for (index_t i = 0; i < count; ++i) {
      const auto& law = problem.laws[static_cast<std::size_t>(laws[static_cast<std::size_t>(first + i)].law)];
      const auto map = thrust_kernels::key_map(law, problem.reflector, d);
      std::copy(map.begin(), map.end(), maps.begin() + i * columns * d);
      means.insert(means.end(), law.mean.begin(), law.mean.end());
    }
    const auto on_maps = on_.copy(maps), on_means = on_.copy(means);
    const auto z = on_.template make<double>(count * n * columns), scores = on_.template make<double>(count * n),
               scale = on_.template make<double>(count);
    const double one = 1, zero = 0;
    const auto in = [](index_t x) { return static_cast<int>(x); };
    check(cublasDgemmStridedBatched(use_.blas(), CUBLAS_OP_T, CUBLAS_OP_N, in(columns), in(n), in(d), &one,
                                    on_maps.data(), in(d), columns * d, y_->data(), in(d), 0, &zero, z.data(),
                                    in(columns), n * columns, in(count)),
          "cublasDgemmStridedBatched");
    check(cublasDgemm(use_.blas(), CUBLAS_OP_T, CUBLAS_OP_N, in(n), in(count), in(d), &one, y_->data(), in(d),
                      on_means.data(), in(d), &zero, scores.data(), in(n)),
          "cublasDgemm");
    law_scales<<<static_cast<unsigned>(count), 256, 0, on_.memory.stream()>>>(z.data(), n, in(columns), scale.data());
    split_keys<Split><<<static_cast<unsigned>((count * n * 32 + 255) / 256), 256, 0, on_.memory.stream()>>>(
        z.data(), scores.data(), scale.data(), n, in(columns), count * n, high, low, norm, score);
    check(cudaGetLastError(), "splitting keys");
  }

  static void read_heat(const std::vector<unsigned long long>& sum, const std::vector<unsigned long long>& count,
                        index_t width, std::vector<pair_sums>& results) {
    for (std::size_t p = 0; p < results.size(); ++p) {
      auto& r = results[p];
      for (index_t i = 0; i < r.heatmap_width; ++i)
        for (index_t j = 0; j < r.heatmap_width; ++j) {
          const auto from = static_cast<std::size_t>((static_cast<index_t>(p) * width + i) * width + j);
          const auto to = static_cast<std::size_t>(i * r.heatmap_width + j);
          r.heatmap_sum[to] = static_cast<double>(sum[from]) / heat_unit;
          r.heatmap_weight[to] = static_cast<double>(count[from]);
        }
    }
  }

  const Machine& on_;
  const handles& use_;
  std::size_t scratch_;
  std::map<std::pair<index_t, double>, tile_plan> plans_;
  std::unique_ptr<qkgeom::buffer<double, typename Machine::memory_type>> y_;
  index_t key_head_ = -1;
};

}  // namespace qkgeom::cuda_kernels
