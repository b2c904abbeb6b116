// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <limits>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/model/component_weights.hpp"
#include "qkgeom/model/fit_checks.hpp"
#include "qkgeom/report/analyse.hpp"

namespace qkgeom {

/// Parameters of attention-plasticity, the tool of the thesis' author. Defaults are that tool's.
struct author_options {
  double alpha = 0.01;           ///< level of the Kolmogorov-Smirnov tests
  index_t most_tokens = 50000;   ///< if a head has more queries or keys, so many of them are drawn; 0: all are used
  index_t most_dimensions = 64;  ///< at most so many of the coordinates 2..d are tested; 0: all
  std::uint64_t seed = 0;        ///< of both draws
};

/// Mean plasticity of the pairs of keys of one document inside one key bucket, for the queries of a later bucket.
struct author_cell {
  index_t q_bucket = 0, k_bucket = 0;
  std::int64_t pairs = 0;
  double plasticity = std::numeric_limits<double>::quiet_NaN();  ///< NaN (null) without pairs
};

/// The report of the author's tool on one query head.
struct author_head {
  index_t layer = 0, q_head = 0, k_head = 0;
  index_t queries = 0, keys = 0, dim = 0;
  fit_checks_result fit;  ///< with coordinates flipped as below
  component_weights_result weights;
  std::vector<author_cell> cells;  ///< by query bucket, then key bucket
  estimate overall;                ///< plain mean over cells; error: jackknife over documents, given the query model
};

/// The grid of a capture under the author's bucket numbers.
struct author_grid {
  bucket_edges edges;
  index_t first = 0;  ///< number of the first bucket; log2 buckets start at log2 of their smallest size
};

/// The grid of the author's tool for a capture: log2 buckets where its tokens were drawn over such, else
/// `query_buckets`.
inline author_grid author_buckets(const capture_manifest& manifest) {
  if (manifest.bucket.kind != "log2") return {query_buckets(manifest, {}), 0};
  const index_t smallest = std::max<index_t>(1, manifest.bucket.size);
  return {log2_buckets{smallest}.edges(manifest.context_length),
          static_cast<index_t>(std::bit_width(static_cast<std::uint64_t>(smallest))) - 1};
}

/// The report of attention-plasticity on each query head of a layer: linear-drift model, query position the bucket's
/// mean, coordinates flipped by the sign of the keys' mean over bucket means, pairs of one document inside one key
/// bucket. Exact where the tool samples pairs. Needs rows in host memory.
template <context Context, class T>
std::vector<author_head> author_layer(Context& ctx, const layer_view<T>& layer, const layer_names& names,
                                      const bucket_edges& buckets, const author_options& options = {});

/// The same for every head of `source`, a capture or a set of them. `progress(heads)` is called after each layer with
/// the number of its query heads.
template <context Context, class Source, class Progress>
std::vector<author_head> author_analysis(Context& ctx, const Source& source, const bucket_edges& buckets,
                                         const author_options& options, Progress&& progress);

}  // namespace qkgeom

#include "qkgeom/study/detail/author_analysis.hpp"
