// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Score distribution of one query bucket, as the pair kernels need it: for keys i, j with delta = k_i - k_j,
/// m = mean . delta and v = sum_c variance_c (H delta)_c^2 or |factor' delta|^2.
struct score_law {
  std::vector<double> mean;      ///< (d), in the keys' own coordinates
  std::vector<double> variance;  ///< (d), along the reflected coordinates; empty: `factor` holds the covariance
  std::vector<double> factor;    ///< (d, rank), row-major, in the keys' own coordinates
  index_t rank = 0;
  double tau = 0;      ///< query position, tokens
  index_t before = 0;  ///< keys at positions below this are admissible
  double after = -1;   ///< keys at positions above this are admissible (windowed layers)
  bool empty() const { return mean.empty(); }
};

/// The exact pair sums of one query head: its laws, one a query bucket, against the keys of one key head.
struct pair_problem {
  index_t key_head = 0;
  std::vector<double> reflector;  ///< unit u of H = I - 2uu', (d); empty: H = I
  std::vector<score_law> laws;
};

/// Observed queries against the keys of one key head: bucket b's rows of q, and what it admits.
struct empirical_problem {
  index_t query_head = 0, key_head = 0;
  std::vector<std::vector<index_t>> query_rows;  ///< (laws) rows of q
  std::vector<score_law> laws;                   ///< only `before`, `after`, `tau` are read
};

/// Weight of the pair of ranks i < j among the m admissible keys of a group, ranks in position order from 0; empty:
/// every pair counts 1.
using pair_weight = std::function<double(index_t i, index_t j, index_t m)>;

enum class pair_precision { f32, f64 };

struct pair_request {
  pair_weight weight{};
  std::optional<pair_precision> precision{};  ///< none: f64 for f64 keys, else f32
  index_t heatmap_cell = 0;                   ///< cell width in tokens; 0: no heatmap
};

/// Sums over pairs, kept apart by group (example), so that means, errors over examples and merges need nothing else.
struct pair_sums {
  index_t laws = 0, groups = 0;
  std::vector<double> sum;          ///< (laws, groups) weighted plasticity
  std::vector<double> weight;       ///< (laws, groups) weights
  std::vector<std::int64_t> pairs;  ///< (laws, groups)
  index_t heatmap_width = 0;        ///< cells along each side
  std::vector<double> heatmap_sum;  ///< (key distance, query distance)
  std::vector<double> heatmap_weight;

  std::size_t at(index_t law, index_t group) const { return static_cast<std::size_t>(law * groups + group); }
};

/// Keys of a layer in the order of the pair kernels: by group, then position. Group g is [offset[g], offset[g + 1]).
struct key_groups {
  std::vector<std::int64_t> row;       ///< row of the layer's k
  std::vector<std::int32_t> position;  ///< (n) ascending within a group
  std::vector<index_t> offset;         ///< (groups + 1)
  std::vector<std::int32_t> example;   ///< (groups) example id; -1 where a group holds all examples
  index_t groups() const { return static_cast<index_t>(offset.size()) - 1; }
};

}  // namespace qkgeom
