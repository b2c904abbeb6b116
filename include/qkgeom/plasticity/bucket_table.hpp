// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/plasticity/profile.hpp"

namespace qkgeom {

/// Mean plasticity by (query bucket, key bucket), over pairs of one document in the key bucket before the query bucket.
struct plasticity_bucket_table {
  std::string_view covariance;
  std::uint64_t model = 0;  ///< fingerprint of the query model
  bucket_edges query_buckets, key_buckets;
  std::vector<profile_bucket> cells;  ///< (query buckets, key buckets) with the query bucket's start, end, queries

  const profile_bucket& cell(index_t query_bucket, index_t key_bucket) const {
    return cells[query_bucket * key_buckets.count() + key_bucket];
  }
};

struct bucket_table_options {
  std::vector<index_t> key_edges{};           ///< ascending edges of key buckets, tokens; empty: the query buckets
  std::optional<pair_precision> precision{};  ///< as in profile_options
};

/// Computes the bucket table of each head of a layer by the kernels and pair sets of `plasticity_profile`; a weight's
/// ranks count the keys of the pair's document and key bucket. Throws as `plasticity_profile` does.
template <context Context, class T, memory_space S, pair_set Pairs = all_pairs>
std::vector<plasticity_bucket_table> bucket_table(Context& ctx, const std::vector<query_model>& models,
                                                  const layer_view<T, S>& layer, const Pairs& pairs = {},
                                                  const bucket_table_options& options = {}) {
  prepared_layer once(layer);
  return bucket_table(ctx, models, once, pairs, options);
}

/// Does the same for a layer that several calls share.
template <context Context, class T, memory_space S, pair_set Pairs = all_pairs>
std::vector<plasticity_bucket_table> bucket_table(Context& ctx, const std::vector<query_model>& models,
                                                  prepared_layer<T, S>& layer, const Pairs& pairs = {},
                                                  const bucket_table_options& options = {});

/// Does the same for one head.
template <context Context, class T, memory_space S, pair_set Pairs = all_pairs>
plasticity_bucket_table bucket_table(Context& ctx, const query_model& model, const head_view<T, S>& head,
                                     const Pairs& pairs = {}, const bucket_table_options& options = {}) {
  return std::move(bucket_table(ctx, std::vector<query_model>{model}, as_layer(head), pairs, options).front());
}

namespace detail {

/// Returns the cell of query bucket b and the key groups `members`, without its sums by document.
inline profile_bucket table_cell(const query_model& model, index_t b, const std::vector<index_t>& members,
                                 const pair_sums& sums, bool documents_weigh_same) {
  profile_bucket cell;
  cell.start = model.buckets.start(b);
  cell.end = model.buckets.end(b);
  cell.queries = model.bucket[b].queries;
  fill_bucket(cell, sums, b, members, documents_weigh_same);
  cell.document_sum = cell.document_weight = {};
  return cell;
}

}  // namespace detail

template <context Context, class T, memory_space S, pair_set Pairs>
std::vector<plasticity_bucket_table> bucket_table(Context& ctx, const std::vector<query_model>& models,
                                                  prepared_layer<T, S>& layer, const Pairs& pairs,
                                                  const bucket_table_options& options) {
  const auto& set = detail::described(pairs);
  const auto problems = pair_problems("bucket_table", models, layer.view());
  if (models.empty()) return {};
  const auto edges = options.key_edges.empty() ? models[0].buckets : bucket_edges(options.key_edges);
  const auto keys = split_by_bucket(layer.keys(ctx, set.across_documents), edges);
  const auto sums =
      detail::sums_over(ctx, layer.view(), keys.groups, problems, detail::request_of(set, options.precision), set);
  std::vector<std::vector<index_t>> members;
  for (index_t c = 0; c < edges.count(); ++c) members.push_back(keys.members(c));
  std::vector<plasticity_bucket_table> tables;
  for (std::size_t h = 0; h < models.size(); ++h) {
    plasticity_bucket_table table{name_of(models[h].covariance), fingerprint(models[h]), models[h].buckets, edges, {}};
    for (index_t b = 0; b < table.query_buckets.count(); ++b)
      for (const auto& groups : members)
        table.cells.push_back(detail::table_cell(models[h], b, groups, sums[h], set.documents_weigh_same));
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace qkgeom
