// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/budget.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/io/capture_moments.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/report/analyse_layer.hpp"
#include "qkgeom/report/notes.hpp"

namespace qkgeom {

/// Returns the query buckets of this capture under `options`: given edges, a given width, or the capture's default. The
/// buckets end at the context. Throws `error` if given edges begin before position 0 or beyond the context, and above
/// `max_query_buckets`.
bucket_edges query_buckets(const capture_manifest& manifest, const analysis_options& options);

/// Throws `error` if analyses of `source` over `buckets` would need more memory than 4 GiB and 64 times the size of its
/// files: moments and query models of a layer's heads, and the sums of profiles by document of all heads.
void check_memory(const capture_set& source, const bucket_edges& buckets, const analysis_options& options);

/// Returns the documents per block with which profiles keep at most 1024 blocks: memory does not grow with documents.
index_t document_block(index_t documents);

/// Counts the query heads in the layers that are analysed.
index_t analysed_heads(const capture_manifest& manifest, const analysis_options& options);

/// Throws `error` naming the file if a layer with these numbers of rows has no geometry.
void require_rows(const captured_layer& layer, index_t queries, index_t keys);

/// Runs the analyses on every captured head, or on those in the options, layer by layer and shard by shard (for pairs
/// across documents: all rows of a layer at once). Several captures of one model are analysed as one: their moments are
/// merged and the query models fitted, then the pairs of each capture are summed under these. If the captures hold
/// moments of every token, these count, and the rows serve for pairs of keys and for the observed queries. Calls
/// `progress(heads)` after each layer with the number of its query heads. Throws `error` naming tensor and row if a row
/// is not finite.
template <context Context, class Progress>
model_report analyse(Context& ctx, const capture_set& source, analysis_options options, Progress&& progress);

/// Runs the analyses without progress.
template <context Context>
model_report analyse(Context& ctx, const capture_set& source, const analysis_options& options = {}) {
  return analyse(ctx, source, options, [](index_t) {});
}

namespace detail {

/// Analyses the layers of captures one by one. The arguments must outlive it.
class layer_analysis {
 public:
  layer_analysis(const capture_set& source, const bucket_edges& buckets, const analysis_options& options)
      : source_(&source),
        buckets_(&buckets),
        options_(&options),
        stored_(!options.every_token ? std::nullopt
                : options.plasticity ? set_moments::open(source, buckets)
                                     : set_moments::open(source)),
        documents_(options.geometry && options.geometry_blocks > 1 ? source.documents_with_rows()
                                                                   : std::vector<std::int32_t>{}) {}

  /// Appends the reports of the layer's selected heads and the extent of its rows to `report` and `positions`. Returns
  /// the number of all its query heads.
  template <context Context>
  index_t add_layer(Context& ctx, index_t number, model_report& report, position_range& positions) const {
    constexpr index_t least_blocks = 4;  // errors from fewer blocks of stored moments say little
    const auto& source = *source_;
    const auto& options = *options_;
    const auto first = source.read_shard(number, 0);
    bool checked = false;
    index_t queries = 0, keys = 0;
    const auto each_shard = [&](const auto& visit) {
      const auto shard = [&](const captured_layer& rows) {
        require(rows.element == first.element, rows.q.file, ": tensor ", rows.q.tensor, " has dtype ",
                name_of(rows.element), ", but ", name_of(first.element), " in ", first.q.file);
        if (!checked) {
          check_finite(rows);
          queries += rows.q.rows;
          keys += rows.k.rows;
          positions.add(rows);
        }
        visit(rows);
      };
      if (options.across_documents || source.n_shards() == 1)
        shard(source.n_shards() == 1 ? first : source.read_layer(number));
      else
        for (index_t p = 0; p < source.n_shards(); ++p) {
          shard(source.read_shard(number, p));
          source.forget(p);
        }
      if (!checked && !stored_ && options.geometry) require_rows(first, queries, keys);
      checked = true;
    };
    std::optional<known_moments> known;
    if (stored_)
      known = known_moments_of(stored_->read(number), options.geometry_blocks > 1 && stored_->blocks() >= least_blocks);
    report.moment_tokens = known ? known->moments.q[0].total.count : 0;
    visit_element_type(first.element, [&]<class T>() {
      const auto shards = [&](const auto& f) { each_shard([&](const captured_layer& rows) { f(rows.view<T>()); }); };
      auto heads = analyse_layer<T>(ctx, shards,
                                    {.names = {number, first.rope, first.query_heads, first.key_heads},
                                     .buckets = *buckets_,
                                     .context_length = source.manifest().context_length,
                                     .document_block = document_block(source.documents()),
                                     .every_token = std::move(known),
                                     .documents = documents_},
                                    options);
      for (auto& h : heads)
        if (options.wants_head(head_id{number, h.q_head})) report.heads.push_back(std::move(h));
    });
    return static_cast<index_t>(first.query_heads.size());
  }

 private:
  const capture_set* source_;
  const bucket_edges* buckets_;
  const analysis_options* options_;
  std::optional<set_moments> stored_;
  std::vector<std::int32_t> documents_;
};

}  // namespace detail

template <context Context, class Progress>
model_report analyse(Context& ctx, const capture_set& source, analysis_options options, Progress&& progress) {
  const auto& manifest = source.manifest();
  if (options.rotation.score_scale == 0) options.rotation.score_scale = manifest.score_scale.value_or(0);
  model_report report{manifest.model.name, manifest.context_length, {}, {}, 0};
  report.rope_stage = manifest.rope_stage;
  report.weighting = options.weighting;
  report.buckets = query_buckets(manifest, options);
  check_memory(source, report.buckets, options);
  const detail::layer_analysis analysis(source, report.buckets, options);
  position_range positions;
  for (const index_t number : source.layers())
    if (options.wants_layer(number)) progress(analysis.add_layer(ctx, number, report, positions));
  report.notes = notes_of(source, report, positions);
  return report;
}

}  // namespace qkgeom
