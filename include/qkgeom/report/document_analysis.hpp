// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/report/analysis_steps.hpp"

namespace qkgeom {

/// A layer whose documents are analysed while their queries and keys are in memory.
struct analysed_layer {
  layer_names names;                  ///< the heads that are analysed, ascending, by their numbers in the model
  std::vector<index_t> key_of_query;  ///< index into `names.key_heads` by query head
  std::optional<index_t> window{};    ///< tokens
};

/// Query models that were fitted elsewhere, of the heads of one layer.
struct fixed_models {
  std::vector<std::vector<query_model>> models;  ///< (covariances)(heads)
};

/// The analyses of one document in one layer over all its tokens, for rows that are not stored: the queries come in one
/// or several chunks, the keys of the whole document at the end. Gives the reports that `analyse_layer` gives for the
/// document's rows: PCA and rotation of its own moments, profiles over all pairs of its keys under its own query models
/// or under given ones, none of the observed queries. T is the element type, S the memory of the rows.
template <context Context, class T, memory_space S = memory_space::host>
class document_analysis {
 public:
  using tensor = tensor_view<const T, S>;
  using positions = vector_view<const std::int32_t, S>;

  /// `context_length` in tokens. `given`, where not null, must be of the same heads, buckets and covariances. `ctx` and
  /// `given` must live longer.
  document_analysis(Context& ctx, const analysed_layer& layer, const bucket_edges& buckets, index_t context_length,
                    const analysis_options& options, const fixed_models* given = nullptr)
      : ctx_(&ctx),
        layer_(layer),
        context_length_(context_length),
        options_(options),
        given_(given),
        moments_{buckets, {}, {}, layer.key_of_query} {
    require(!options.empirical && !options.across_documents && options.geometry_blocks == 0,
            "document_analysis: observed queries, pairs across documents and errors of the geometry need rows that are "
            "kept");
  }

  /// Adds the queries of the tokens from `first` on: q (rows, the model's query heads, d) with their positions. Tokens
  /// before those of the first call do not count. Throws `error`, which calls the document `where`, if a row is not
  /// finite.
  void add_queries(const tensor& q, index_t first, const positions& position, const std::string& where = "document") {
    if (moments_.q.empty()) first_ = next_ = first;
    require(first == next_, where, ": its queries go on at token ", first, ", but those before end at ", next_);
    next_ += q.rows;
    auto chunk = moments_of("q", where, q, layer_.names.query_heads, position, buckets_from(first, q.rows),
                            moment_options{}.q_bucket);
    layer_moments more{moments_.buckets, std::move(chunk), {}, moments_.key_of_query};
    moments_ = moments_.q.empty() ? std::move(more) : merge(std::move(moments_), more);
  }

  /// The reports of the document, one per head. k (rows, the model's key heads, d): the keys of all tokens whose
  /// queries were added, with the position and the document's number of each row.
  std::vector<head_report> finish(const tensor& k, const positions& position, const positions& document,
                                  const std::string& where = "document") {
    require(k.rows > 0 && first_ + k.rows == next_, where, ": ", k.rows, " keys for ", next_ - first_, " queries");
    const auto& heads = layer_.names.key_heads;
    moments_.k = moments_of("k", where, k, heads, position, buckets_from(first_, k.rows), moment_options{}.k_bucket);
    auto reports = named_heads(layer_.names, layer_.key_of_query, layer_.window);
    for (auto& r : reports) r.queries = r.keys = k.rows;
    if (options_.geometry)
      add_geometry(*ctx_, moments_, differences(k, position, where), context_length_, options_, reports);
    if (options_.plasticity) add_profiles(k, position, document, reports);
    return reports;
  }

  /// Moments of the document's queries and, after `finish`, of its keys.
  const layer_moments& moments() const { return moments_; }

 private:
  std::vector<std::int32_t> buckets_from(index_t first, index_t rows) const {
    std::vector<std::int32_t> bucket;
    for (index_t t = first; t < first + rows; ++t) bucket.push_back(static_cast<std::int32_t>(moments_.buckets(t)));
    return bucket;
  }

  /// Moments of some heads of x, without a copy: heads that follow one another are one call.
  std::vector<side_moments> moments_of(const char* side, const std::string& where, const tensor& x,
                                       const std::vector<index_t>& heads, const positions& position,
                                       const std::vector<std::int32_t>& bucket, scatter_kind kind,
                                       index_t buckets = -1) const {
    require(position.size == x.rows, where, ": ", position.size, " positions for ", x.rows, " rows of ", side);
    require(std::all_of(heads.begin(), heads.end(), [&](index_t h) { return h >= 0 && h < x.heads; }), where, ": ",
            side, " has ", x.heads, " heads, which are not all that are named");
    std::vector<side_moments> all;
    for (std::size_t i = 0, end = 0; i < heads.size(); i = end) {
      for (end = i + 1; end < heads.size() && heads[end] == heads[end - 1] + 1;) ++end;
      const std::string name = where + ", " + side + " from head " + std::to_string(heads[i]) + " on";
      const tensor run{
          x.data + heads[i] * x.head_stride, x.rows, static_cast<index_t>(end - i), x.dim, x.row_stride, x.head_stride};
      auto found =
          ctx_->moments(name.c_str(), run, position, bucket, buckets < 0 ? moments_.buckets.count() : buckets, kind);
      for (auto& m : found) all.push_back(std::move(m));
    }
    return all;
  }

  /// Scatter of the differences of two keys of the document: n keys with scatter S about their mean give n S.
  layer_blocks differences(const tensor& k, const positions& position, const std::string& where) const {
    layer_blocks by_block;
    by_block.blocks = {{0}, 1};
    const std::vector<std::int32_t> same(k.rows, 0);
    const double n = static_cast<double>(k.rows);
    for (const auto& head : moments_of("k", where, k, layer_.names.key_heads, position, same, scatter_kind::full, 1)) {
      const auto& m = head.bucket[0];
      by_block.k.push_back({block_moments{m, dense::scaled(m.xx, n), 0.5 * n * (n - 1)}});
    }
    return by_block;
  }

  void add_profiles(const tensor& k, const positions& position, const positions& document,
                    std::vector<head_report>& reports) const {
    std::vector<index_t> keys;
    for (const index_t h : layer_.key_of_query) keys.push_back(layer_.names.key_heads[h]);
    const tensor no_queries{nullptr, 0, static_cast<index_t>(keys.size()), k.dim, 0, 0};
    prepared_layer<T, S> rows(*ctx_, {no_queries, {}, {}, k, position, document, std::move(keys), layer_.window});
    const auto own = given_ ? std::vector<std::vector<query_model>>{} : fit_query_models(*ctx_, moments_, options_);
    const auto& models = given_ ? given_->models : own;
    auto found = profiles_of_shard(*ctx_, rows, models, layer_.names.layer, 0, options_);
    add_drift(models[0], reports);
    for (std::size_t h = 0; h < reports.size(); ++h)
      for (auto& profiles : found) {
        reports[h].summaries.push_back(summarize(profiles[h], context_length_));
        reports[h].profiles.push_back(std::move(profiles[h]));
      }
  }

  Context* ctx_;
  analysed_layer layer_;
  index_t context_length_;
  analysis_options options_;
  const fixed_models* given_;
  layer_moments moments_;
  index_t first_ = 0, next_ = 0;
};

}  // namespace qkgeom
