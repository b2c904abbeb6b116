// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <vector>

#include "qkgeom/backend/detail/pair_cells.hpp"
#include "qkgeom/backend/detail/pair_ranges.hpp"
#include "qkgeom/backend/detail/thrust/keys.hpp"

namespace qkgeom::thrust_kernels {

/// Sums over the pairs of one query bucket and group.
template <int Values>
struct value_sums {
  double sum[Values] = {};
  double weight = 0;
  std::int64_t pairs = 0;
  index_t refused_i = -1, refused_j = -1;  ///< keys of the first pair with a negative or non-finite weight, or -1
  double refused = 0;                      ///< its weight

  QKGEOM_HD void add(const value_sums& x) {
    for (int v = 0; v < Values; ++v) sum[v] += x.sum[v];
    weight += x.weight;
    pairs += x.pairs;
    if (refused_i >= 0 || x.refused_i < 0) return;
    refused_i = x.refused_i;
    refused_j = x.refused_j;
    refused = x.refused;
  }
};

/// Sums a pair function over slices of a query bucket's pairs: runs of pair tiles of one range, visited in order.
template <class PairFunction, class Weight>
struct pair_slices {
  static constexpr index_t side = 32;
  PairFunction function;
  Weight weight;
  const group_range* range;
  const index_t* slice_of_range;  ///< (ranges + 1) first slice
  index_t ranges, tiles_per_slice, first_slice;
  const std::int32_t *position, *document, *key_document;  ///< key_document: null if each group is one document
  double tau;
  backend::heatmap_cells cells;
  double* heat;  ///< (slices from first_slice on, cells, 1 + values); null: no heatmap
  value_sums<PairFunction::values>* out;

  QKGEOM_HD void operator()(index_t at) const {
    const index_t slice = first_slice + at, r = place_in(slice_of_range, ranges, slice);
    const group_range g = range[r];
    const index_t across = (g.count + side - 1) / side, tiles = across * (across + 1) / 2;
    const index_t begin = (slice - slice_of_range[r]) * tiles_per_slice, stop = begin + tiles_per_slice;
    double* const mine = heat ? heat + at * cells.width * cells.width * (1 + PairFunction::values) : nullptr;
    value_sums<PairFunction::values> sums;
    for (index_t t = begin; t < stop && t < tiles; ++t) {
      // Tile t of i <= j is pair t of i < j + 1.
      const auto tile = pair_of_number(t);
      add_tile(g, tile.i * side, (tile.j - 1) * side, sums, mine);
    }
    out[at] = sums;
  }

 private:
  QKGEOM_HD void add_tile(const group_range& g, index_t i0, index_t j0, value_sums<PairFunction::values>& sums,
                          double* mine) const {
    const index_t i1 = i0 + side < g.count ? i0 + side : g.count, j1 = j0 + side < g.count ? j0 + side : g.count;
    for (index_t j = j0; j < j1; ++j)
      for (index_t i = i0; i < i1 && i < j; ++i) add_pair(g, i, j, sums, mine);
  }

  QKGEOM_HD void add_pair(const group_range& g, index_t i, index_t j, value_sums<PairFunction::values>& sums,
                          double* mine) const {
    const index_t a = g.first + i, b = g.first + j;
    double w = 1;
    if constexpr (Weight::given) {
      key_pair pair{i, j, g.count, position[a], position[b], 0, 0, tau};
      pair.document_i = key_document ? key_document[a] : document[g.group];
      pair.document_j = key_document ? key_document[b] : document[g.group];
      w = weight(pair);
      if (!backend::is_weight(w)) {
        if (sums.refused_i < 0) {
          sums.refused_i = a;
          sums.refused_j = b;
          sums.refused = w;
        }
        return;
      }
      if (w == 0) return;
    }
    double value[PairFunction::values];
    function(a, b, position[a] == position[b], value);
    for (int v = 0; v < PairFunction::values; ++v) sums.sum[v] += w * value[v];
    sums.weight += w;
    ++sums.pairs;
    if (!mine) return;
    const index_t cell = cells.cell_of(cells.place(position[a], position[b]), tau);
    if (cell < 0) return;
    double* const to = mine + cell * (1 + PairFunction::values);
    to[0] += w;
    for (int v = 0; v < PairFunction::values; ++v) to[1 + v] += w * value[v];
  }
};

/// Adds the sum over slices [begin, end) of slices(slice, entry) to group(entry).
struct add_heat {
  const double* slices;
  index_t begin, end, entries;
  double* group;
  QKGEOM_HD void operator()(index_t e) const {
    double sum = group[e];
    for (index_t s = begin; s < end; ++s) sum += slices[s * entries + e];
    group[e] = sum;
  }
};

/// Sums a pair function over each of `ranges`, the ranges of one query bucket. With a heatmap, each_group(group,
/// heatmap) gets each group's (cells, 1 + values), in order.
template <class Device, class PairFunction, class Weight, class EachGroup>
std::vector<value_sums<PairFunction::values>> sum_ranges(const Device& device, const device_keys<Device>& groups,
                                                         const std::vector<group_range>& ranges,
                                                         const score_distribution& scores, const PairFunction& function,
                                                         const Weight& weight, const backend::heatmap_cells& cells,
                                                         EachGroup&& each_group) {
  using sums = value_sums<PairFunction::values>;
  constexpr index_t memory_of_heat = index_t{1} << 23, side = pair_slices<PairFunction, Weight>::side;
  if (ranges.empty()) return {};
  const index_t entries = cells.width * cells.width * (1 + PairFunction::values);
  const index_t tiles_per_slice = entries > 0 ? 16 : 1;
  std::vector<index_t> slice{0};
  for (const auto& r : ranges) {
    const index_t across = (r.count + side - 1) / side;
    slice.push_back(slice.back() + (across * (across + 1) / 2 + tiles_per_slice - 1) / tiles_per_slice);
  }
  const auto n_ranges = static_cast<index_t>(ranges.size());
  const auto on_range = device.copy(ranges);
  const auto on_slice = device.copy(slice);
  auto out = device.template make<sums>(slice.back());
  const index_t batch = entries > 0 ? std::clamp<index_t>(memory_of_heat / entries, 1, slice.back()) : slice.back();
  const auto heat = device.template make<double>(entries > 0 ? batch * entries : 0);
  const auto group_heat = device.template make<double>(entries);
  std::size_t r = 0;  // the range whose heatmap is being summed
  device.fill(group_heat.data(), entries, 0.0);
  for (index_t first = 0; first < slice.back(); first += batch) {
    const index_t count = std::min(batch, slice.back() - first);
    if (entries > 0) device.fill(heat.data(), count * entries, 0.0);
    device.each(count, pair_slices<PairFunction, Weight>{
                           .function = function,
                           .weight = weight,
                           .range = on_range.data(),
                           .slice_of_range = on_slice.data(),
                           .ranges = n_ranges,
                           .tiles_per_slice = tiles_per_slice,
                           .first_slice = first,
                           .position = groups.position.data(),
                           .document = groups.document.data(),
                           .key_document = groups.host.key_document.empty() ? nullptr : groups.key_document.data(),
                           .tau = scores.tau,
                           .cells = cells,
                           .heat = entries > 0 ? heat.data() : nullptr,
                           .out = out.data() + first});
    for (index_t done = first; entries > 0 && done < first + count;) {
      const index_t end = std::min(first + count, slice[r + 1]);
      device.each(entries, add_heat{heat.data(), done - first, end - first, entries, group_heat.data()});
      done = end;
      if (done < slice[r + 1]) continue;
      each_group(ranges[r].group, group_heat.host(entries));
      device.fill(group_heat.data(), entries, 0.0);
      ++r;
    }
  }
  auto result = segment_sums(device, std::move(out), std::move(slice));
  for (const auto& x : result)
    if (x.refused_i >= 0)
      backend::check_weight(x.refused, groups.host.position[x.refused_i], groups.host.position[x.refused_j]);
  return result;
}

}  // namespace qkgeom::thrust_kernels
