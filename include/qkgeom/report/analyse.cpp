// SPDX-License-Identifier: MIT
#include "qkgeom/report/analyse.hpp"

namespace qkgeom {

bucket_edges query_buckets(const capture_manifest& manifest, const analysis_options& options) {
  if (!options.bucket_edges.empty()) {
    auto edges = bucket_edges(options.bucket_edges).edges();
    const index_t length = manifest.context_length;
    require(edges.front() >= 0 && edges.front() < length,
            "the edges of query buckets must begin within the context of ", length, " tokens, not at ", edges.front());
    while (edges[edges.size() - 2] >= length) edges.pop_back();
    edges.back() = std::min(edges.back(), length);
    return bucket_edges(std::move(edges));
  }
  const index_t size = options.bucket_size > 0 ? options.bucket_size : manifest.usual_bucket_size();
  return captured_buckets{"uniform", size}.edges(manifest.context_length);
}

void check_memory(const capture_set& source, const bucket_edges& buckets, const analysis_options& options) {
  constexpr index_t least = index_t{4} << 30, times = 64, number = sizeof(double);
  const auto& m = source.manifest();
  std::size_t heads = 0;
  for (const auto& l : m.layers) heads = std::max(heads, l.query_heads.size());
  const index_t d = m.model.head_dim, documents = std::min<index_t>(source.documents(), 1024);
  const auto profiles = static_cast<index_t>(options.covariances.size()) + 1;
  const std::string of = " query buckets of " + std::to_string(m.query_heads()) + " heads of size " + std::to_string(d);
  budget memory(static_cast<std::uint64_t>(saturated_product({source.bytes() + least / times, times})),
                source.captures()[0].path().string() + ": an analysis over " + std::to_string(buckets.count()) + of +
                    " needs more memory than 4 GiB and 64 times the capture's size; --bucket-size takes wider buckets");
  memory.spend(saturated_product({buckets.count() + 1, static_cast<index_t>(heads), d, d, 2 * number}));
  memory.spend(saturated_product({buckets.count(), m.query_heads(), documents + 1, profiles, 2 * number}));
}

index_t document_block(index_t documents) {
  index_t block = 1;
  while (documents > 1024 * block) block *= 2;
  return block;
}

index_t analysed_heads(const capture_manifest& manifest, const analysis_options& options) {
  index_t n = 0;
  for (const auto& layer : manifest.layers)
    if (options.wants_layer(layer.layer)) n += static_cast<index_t>(layer.query_heads.size());
  return n;
}

void require_rows(const captured_layer& layer, index_t queries, index_t keys) {
  require(queries > 0 && keys > 0, layer.q.file, ": layer ", layer.layer, " has no ", queries > 0 ? "keys" : "queries",
          ", and PCA and rotation need at least one query and one key");
}

}  // namespace qkgeom
