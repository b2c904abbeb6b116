// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/thrust/products.hpp"
#include "qkgeom/backend/detail/tiles/sums.hpp"

/// Launches of tile programs over many query buckets. A launcher launches programs and multiplies matrices on a device:
///   device(): see thrust/device.hpp
///   launch(program, blocks): see tiles/tile_team.hpp
///   multiply(products): see thrust/products.hpp
namespace qkgeom::thrust_kernels {

/// The tile plans of query buckets. Buckets that admit the same keys share a plan.
class tile_plans {
 public:
  const tile::tile_plan& of(const keys_by_document& groups, const score_distribution& scores) {
    const auto key = std::pair(scores.before, scores.after);
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second;
    return plans_.emplace(key, tile::tile_plan(ranges_of(groups, scores))).first->second;
  }

 private:
  std::map<std::pair<index_t, double>, tile::tile_plan> plans_;
};

/// The pair tiles of several query buckets over the same n keys, as one launch.
class tile_batch {
 public:
  /// Lists the tiles of buckets with these plans. The vectors are long, so they grow once.
  tile_batch(index_t n, const std::vector<const tile::tile_plan*>& plans) : n_(n) {
    std::map<const tile::tile_plan*, index_t> first_range;
    std::size_t spans = 0, sums = 0;
    for (const auto* plan : plans) {
      spans += plan->spans.size();
      sums += plan->sums.size();
      if (first_range.try_emplace(plan, static_cast<index_t>(ranges_.size())).second)
        ranges_.insert(ranges_.end(), plan->ranges.begin(), plan->ranges.end());
    }
    spans_.reserve(spans);
    sums_.reserve(sums);
    for (const auto* plan : plans) {
      const index_t range = first_range[plan];
      for (auto s : plan->spans) {
        s.first_tile += tiles_;
        s.first_range += range;
        s.bucket = static_cast<std::int32_t>(buckets_);
        spans_.push_back(s);
      }
      for (auto s : plan->sums) {
        const index_t from = s.tiles ? tiles_ : buckets_ * n_;
        s.begin += from;
        s.end += from;
        sums_.push_back(s);
      }
      tiles_ += plan->tiles;
      ++buckets_;
    }
  }

  /// Launches `program(list)` over all tiles.
  template <class Launcher, class MakeProgram>
  void each_tile(const Launcher& launcher, const MakeProgram& program) const {
    constexpr index_t most_blocks = index_t{1} << 30;
    const tile::span_table table(spans_, tiles_, index_t{1} << 20);
    const auto spans = launcher.device().copy(spans_);
    const auto span_at = launcher.device().copy(table.at);
    const auto ranges = launcher.device().copy(ranges_);
    for (index_t first = 0; first < tiles_; first += most_blocks)
      launcher.launch(program(tile::tile_list{spans.data(), span_at.data(), table.shift, first, ranges.data(), n_}),
                      std::min(most_blocks, tiles_ - first));
  }

  /// Launches `program(list, sums)` over all tiles and adds up its output: (values, ranges of the plans in order).
  template <class Launcher, class MakeProgram>
  std::vector<double> run(const Launcher& launcher, index_t values, const MakeProgram& program) const {
    if (tiles_ == 0) return {};
    const auto& device = launcher.device();
    const auto sums = device.copy(sums_);
    const auto by_tile = device.template make<double>(values * tiles_),
               by_key = device.template make<double>(values * buckets_ * n_),
               found = device.template make<double>(values * sums.size());
    const tile::tile_sums to{by_tile.data(), by_key.data(), tiles_, buckets_ * n_};
    each_tile(launcher, [&](const tile::tile_list& list) { return program(list, to); });
    const tile::sum_program add{sums.data(), sums.size(), values, to, found.data()};
    launcher.launch(add, add.blocks());
    return found.host();
  }

 private:
  index_t n_, tiles_ = 0, buckets_ = 0;
  std::vector<tile::tile_span> spans_;
  std::vector<group_range> ranges_;
  std::vector<tile::sum_span> sums_;
};

}  // namespace qkgeom::thrust_kernels
