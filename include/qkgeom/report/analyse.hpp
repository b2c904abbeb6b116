// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/report/head_report.hpp"

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

/// Runs the analyses on every captured head, a layer at a time. `progress(heads)` is called after each layer with the
/// number of query heads done there. A row that is not finite is an error that names the tensor and the row.
template <class Context, class Progress>
model_report analyse(Context& ctx, const capture& source, const analysis_options& options, Progress&& progress) {
  const auto& manifest = source.manifest();
  model_report report{manifest.model.name, manifest.context_length, query_buckets(manifest, options), {}};
  for (const index_t number : source.layers()) {
    const auto layer = source.read_layer(number);
    check_finite(layer);
    layer.visit([&]<class T>(const layer_view<T>& rows) {
      auto heads = analyse_layer(ctx, rows, {layer.layer, layer.rope, layer.query_heads, layer.key_heads},
                                 report.buckets, report.context_length, options);
      for (auto& h : heads) report.heads.push_back(std::move(h));
    });
    progress(static_cast<index_t>(layer.query_heads.size()));
  }
  return report;
}

template <class Context>
model_report analyse(Context& ctx, const capture& source, const analysis_options& options = {}) {
  return analyse(ctx, source, options, [](index_t) {});
}

}  // namespace qkgeom
