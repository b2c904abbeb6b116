// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/report/head_report.hpp"
#include "qkgeom/report/known_moments.hpp"

namespace qkgeom {

/// What `analyse_layer` needs to know about a layer besides its rows.
struct layer_request {
  layer_names names;
  bucket_edges buckets;
  index_t context_length = 0;                  ///< tokens
  index_t document_block = 1;                  ///< documents that count together, see `fold_documents`; 1: each alone
  std::optional<known_moments> every_token{};  ///< moments of more rows than there are, which count instead of theirs
  std::vector<std::int32_t> documents{};       ///< of all layers, for blocks that are the same in each; empty: its own
};

/// Runs the analyses on every head of one layer, whose rows come in one or several shards: `shards(f)` calls
/// f(layer_view<T>) for each shard, each time it is called. A document's keys must stand in one shard; the
/// query models are those of all shards. Returns a report per query head.
template <class T, context Context, class Shards>
std::vector<head_report> analyse_layer(Context& ctx, const Shards& shards, layer_request layer,
                                       const analysis_options& options);

/// The same for rows in the memory of the context, which may be a device's.
template <context Context, class T, memory_space S>
std::vector<head_report> analyse_layer(Context& ctx, const layer_view<T, S>& rows, const layer_names& names,
                                       const bucket_edges& buckets, index_t context_length,
                                       const analysis_options& options);

}  // namespace qkgeom

#include "qkgeom/report/detail/analyse_layer.hpp"
