// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/report/analyse_layer.hpp"

namespace qkgeom {

/// Query buckets that `options` asks for on this capture: given edges, a given width, the capture's own uniform grid,
/// or a sixteenth of the context.
inline bucket_edges query_buckets(const capture_manifest& manifest, const analysis_options& options) {
  if (!options.bucket_edges.empty()) return bucket_edges(options.bucket_edges);
  index_t size = options.bucket_size;
  if (size == 0 && manifest.bucket.kind == "uniform") size = manifest.bucket.size;
  if (size == 0) size = std::max<index_t>(1, manifest.context_length / 16);
  return uniform_buckets{size}.edges(manifest.context_length);
}

/// Documents a block where profiles keep at most 1024 blocks, so that memory does not grow with the documents.
inline index_t document_block(index_t documents) {
  index_t block = 1;
  while (documents > 1024 * block) block *= 2;
  return block;
}

/// Runs the analyses on every captured head, a layer at a time, each layer a shard at a time (all rows of a layer at
/// once for pairs across examples). Several captures of one model are analysed as one: their moments are merged, the
/// query models fitted, then the pairs of each summed under these. `progress(heads)` is called after each layer with
/// the number of query heads done there. A row that is not finite is an error that names the tensor and the row.
template <class Context, class Progress>
model_report analyse(Context& ctx, const capture_set& source, const analysis_options& options, Progress&& progress) {
  const auto& manifest = source.manifest();
  model_report report{manifest.model.name, manifest.context_length, query_buckets(manifest, options), {}};
  for (const index_t number : source.layers()) {
    const auto first = source.read_part(number, 0);
    bool checked = false;
    const auto each_part = [&](const auto& visit) {
      const auto part = [&](const captured_layer& rows) {
        require(rows.element == first.element, rows.q.file, ": tensor ", rows.q.tensor, " has dtype ",
                name_of(rows.element), ", but ", name_of(first.element), " in ", first.q.file);
        if (!checked) check_finite(rows);
        visit(rows);
      };
      if (options.across_examples || source.n_parts() == 1)
        part(source.n_parts() == 1 ? first : source.read_layer(number));
      else
        for (index_t p = 0; p < source.n_parts(); ++p) {
          part(source.read_part(number, p));
          source.forget(p);
        }
      checked = true;
    };
    visit_element_type(first.element, [&]<class T>() {
      const auto parts = [&](const auto& f) { each_part([&](const captured_layer& rows) { f(rows.view<T>()); }); };
      auto heads = analyse_layer<T>(ctx, parts, {number, first.rope, first.query_heads, first.key_heads},
                                    report.buckets, report.context_length, options, document_block(source.documents()));
      for (auto& h : heads) report.heads.push_back(std::move(h));
    });
    progress(static_cast<index_t>(first.query_heads.size()));
  }
  return report;
}

template <class Context>
model_report analyse(Context& ctx, const capture_set& source, const analysis_options& options = {}) {
  return analyse(ctx, source, options, [](index_t) {});
}

}  // namespace qkgeom
