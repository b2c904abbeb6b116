// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/report/analyse.hpp"
#include "qkgeom/report/document_analysis.hpp"

namespace qkgeom {

/// Moments and query models of all documents together, from the moments of every token in captures of the same model;
/// for the heads and query buckets of another capture, whose documents are analysed one by one.
class captured_models {
 public:
  /// `plan` is the manifest of the capture whose documents are to be analysed. Throws `error` naming the capture if it
  /// lacks one of its heads or differs otherwise.
  captured_models(const std::vector<std::filesystem::path>& captures, const capture_manifest& plan,
                  const bucket_edges& buckets, const analysis_options& options)
      : plan_(plan), source_(capture_set::open(captures)), options_(options) {
    const std::string first = captures[0].string();
    const auto same = [&](bool equal, const char* what) {
      require(equal, first, ": its ", what,
              " differs from that of the capture to be made: its query models are not of ", "these heads");
    };
    const auto& m = source_.manifest();
    same(m.model == plan.model, "model");
    same(m.context_length == plan.context_length, "context_length");
    same(m.rope_stage == plan.rope_stage, "rope_stage");
    same(m.rope == plan.rope, "rotary embedding");
    auto stored = set_moments::open(source_, buckets);
    require(stored.has_value(), first, ": it holds no moments of every token over the query buckets of ",
            buckets.end(0) - buckets.start(0), " tokens; qkgeom-capture --moments makes them");
    moments_ = std::move(*stored);
    for (const auto& info : plan.layers) {
      places(info.query_heads, m.layer(info.layer).query_heads, info.layer, "query");
      places(info.key_heads, m.layer(info.layer).key_heads, info.layer, "key");
    }
  }

  /// Documents behind the moments.
  index_t documents() const { return static_cast<index_t>(source_.listed_documents().size()); }

  /// Moments of the plan's heads in one of its layers.
  known_moments read(index_t layer) const {
    const auto& own = plan_.layer(layer);
    const auto& theirs = source_.manifest().layer(layer);
    auto all = known_moments_of(moments_->read(layer), false);
    known_moments chosen{{all.moments.buckets, {}, {}, plan_.key_of_query(own)}, {}};
    chosen.by_block.blocks = std::move(all.by_block.blocks);
    for (const std::size_t h : places(own.query_heads, theirs.query_heads, layer, "query"))
      chosen.moments.q.push_back(std::move(all.moments.q[h]));
    for (const std::size_t h : places(own.key_heads, theirs.key_heads, layer, "key")) {
      chosen.moments.k.push_back(std::move(all.moments.k[h]));
      chosen.by_block.k.push_back(std::move(all.by_block.k[h]));
    }
    return chosen;
  }

  /// The query models of a layer; those of the last layer are kept.
  template <context Context>
  const fixed_models& models(Context& ctx, index_t layer) {
    if (layer != layer_) models_.models = fit_query_models(ctx, read(layer).moments, options_);
    layer_ = layer;
    return models_;
  }

  /// Fingerprint of the models of every layer, kind and head.
  template <context Context>
  std::uint64_t fingerprint_of_all(Context& ctx) {
    std::uint64_t all = 0;
    for (const auto& info : plan_.layers)
      for (const auto& kind : models(ctx, info.layer).models)
        for (const auto& m : kind) all = all * 1099511628211u + fingerprint(m);
    return all;
  }

 private:
  std::vector<std::size_t> places(const std::vector<index_t>& heads, const std::vector<index_t>& among, index_t layer,
                                  const char* kind) const {
    std::vector<std::size_t> at;
    for (const index_t h : heads) {
      const auto it = std::find(among.begin(), among.end(), h);
      require(it != among.end(), source_.captures()[0].path().string(), ": it holds no moments of layer ", layer, ", ",
              kind, " head ", h);
      at.push_back(it - among.begin());
    }
    return at;
  }

  capture_manifest plan_;
  capture_set source_;
  analysis_options options_;
  std::optional<set_moments> moments_{};
  fixed_models models_{};
  index_t layer_ = -1;
};

}  // namespace qkgeom
