// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/buckets.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_moments.hpp"
#include "qkgeom/report/analyse_layer.hpp"

namespace qkgeom {

/// Query buckets that `options` asks for on this capture: given edges, a given width, or the capture's usual one. What
/// lies beyond the context is cut off. Throws `error` if given edges begin before position 0 or beyond the context.
inline bucket_edges query_buckets(const capture_manifest& manifest, const analysis_options& options) {
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
  return uniform_buckets{size}.edges(manifest.context_length);
}

/// Documents a block where profiles keep at most 1024 blocks, so that memory does not grow with the documents.
inline index_t document_block(index_t documents) {
  index_t block = 1;
  while (documents > 1024 * block) block *= 2;
  return block;
}

namespace detail {

/// Blocks of stored moments that errors need: fewer say little, and the blocks are not of one size.
inline constexpr index_t least_blocks = 4;

/// The moments of a layer's blocks as `analyse_layer` takes them; with `each_block` its geometry without one block.
inline known_moments known_from(std::vector<token_moments> blocks, bool each_block) {
  known_moments known{blocks.at(0).moments, {}};
  auto& by_block = known.by_block;
  by_block.blocks.count = each_block ? static_cast<index_t>(blocks.size()) : 1;
  by_block.blocks.as_stored = each_block;
  for (std::size_t b = 1; b < blocks.size(); ++b) {
    known.moments = merge(std::move(known.moments), blocks[b].moments);
    if (!each_block) merge(blocks[0], blocks[b]);
  }
  if (!each_block) blocks.resize(1);
  by_block.k.resize(known.moments.k.size());
  if (each_block) by_block.q.resize(known.moments.q.size());
  for (auto& block : blocks) {
    for (std::size_t h = 0; h < by_block.k.size(); ++h)
      by_block.k[h].push_back({std::move(block.moments.k[h].total), std::move(block.k_differences[h]), block.k_pairs});
    for (std::size_t h = 0; h < by_block.q.size(); ++h) {
      auto& total = block.moments.q[h].total;
      std::vector<double> none(total.xx.size());
      by_block.q[h].push_back({std::move(total), std::move(none), 0});
    }
  }
  return known;
}

}  // namespace detail

/// Runs the analyses on every captured head, a layer at a time, each layer a shard at a time (all rows of a layer at
/// once for pairs across documents). Several captures of one model are analysed as one: their moments are merged, the
/// query models fitted, then the pairs of each summed under these. Where the captures hold moments of every token,
/// these count, and the rows are left for pairs of keys and for the observed queries. `progress(heads)` is called after
/// each layer with the number of query heads done there. A row that is not finite is an error that names the tensor and
/// the row.
template <context Context, class Progress>
model_report analyse(Context& ctx, const capture_set& source, const analysis_options& options, Progress&& progress) {
  const auto& manifest = source.manifest();
  model_report report{manifest.model.name, manifest.context_length, query_buckets(manifest, options), {}, 0};
  const auto stored = !options.every_token ? std::nullopt
                      : options.plasticity ? set_moments::open(source, report.buckets)
                                           : set_moments::open(source);
  const auto documents =
      options.geometry && options.geometry_blocks > 1 ? source.documents_with_rows() : std::vector<std::int32_t>{};
  for (const index_t number : source.layers()) {
    const auto first = source.read_shard(number, 0);
    bool checked = false;
    const auto each_shard = [&](const auto& visit) {
      const auto shard = [&](const captured_layer& rows) {
        require(rows.element == first.element, rows.q.file, ": tensor ", rows.q.tensor, " has dtype ",
                name_of(rows.element), ", but ", name_of(first.element), " in ", first.q.file);
        if (!checked) check_finite(rows);
        visit(rows);
      };
      if (options.across_documents || source.n_shards() == 1)
        shard(source.n_shards() == 1 ? first : source.read_layer(number));
      else
        for (index_t p = 0; p < source.n_shards(); ++p) {
          shard(source.read_shard(number, p));
          source.forget(p);
        }
      checked = true;
    };
    std::optional<known_moments> known;
    if (stored)
      known = detail::known_from(stored->read(number),
                                 options.geometry_blocks > 1 && stored->blocks() >= detail::least_blocks);
    if (known) report.moment_tokens = known->moments.q[0].total.count;
    visit_element_type(first.element, [&]<class T>() {
      const auto shards = [&](const auto& f) { each_shard([&](const captured_layer& rows) { f(rows.view<T>()); }); };
      auto heads = analyse_layer<T>(ctx, shards, {number, first.rope, first.query_heads, first.key_heads},
                                    report.buckets, report.context_length, options, document_block(source.documents()),
                                    std::move(known), documents);
      for (auto& h : heads) report.heads.push_back(std::move(h));
    });
    progress(static_cast<index_t>(first.query_heads.size()));
  }
  return report;
}

template <context Context>
model_report analyse(Context& ctx, const capture_set& source, const analysis_options& options = {}) {
  return analyse(ctx, source, options, [](index_t) {});
}

}  // namespace qkgeom
