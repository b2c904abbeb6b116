// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "examples/common/cli.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/program.hpp"
#include "qkgeom/report/analyse.hpp"

namespace qkgeom::examples {

/// Calls f(captured_layer, layer_view<T>, layer_moments) for each layer that the options name in order, with all its
/// rows and a progress bar. The moments are of every token if the captures hold those, else of the rows. Throws `error`
/// on a row that is not finite.
template <class F>
void for_each_layer(cpu_context& cpu, const capture_set& source, const arguments& a, const analysis_options& options,
                    const std::string& label, const F& f) {
  const auto& manifest = source.manifest();
  const auto buckets = query_buckets(manifest, options);
  check_memory(source, buckets, options);
  const auto stored = a.rows_only ? std::nullopt : set_moments::open(source, buckets);
  require(manifest.query_heads() > 0, a.captures.at(0).string(), ": this capture holds no query head");
  progress bar(label, analysed_heads(manifest, options), "heads");
  for (const index_t number : source.layers()) {
    if (!options.wants_layer(number)) continue;
    const auto layer = source.read_layer(number);
    check_finite(layer);
    if (!stored) require_rows(layer, layer.q.rows, layer.k.rows);
    layer.visit([&]<class T>(const layer_view<T>& rows) {
      const auto moments =
          stored ? known_moments_of(stored->read(number), false).moments
                 : accumulate(cpu, rows, edge_buckets{buckets.edges()}, {.context_length = manifest.context_length});
      f(layer, rows, moments);
    });
    bar.add(static_cast<index_t>(layer.query_heads.size()));
  }
  bar.done();
}

}  // namespace qkgeom::examples
