// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/plasticity/profile.hpp"

namespace qkgeom {

/// Mean plasticity by (query bucket, key bucket): over pairs of one document whose keys both lie in the key bucket and
/// before the query bucket's start.
struct plasticity_bucket_table {
  std::string_view covariance;
  std::uint64_t model = 0;  ///< fingerprint of the query model
  bucket_edges query_buckets, key_buckets;
  std::vector<std::int32_t> documents;  ///< ids behind the cells' document sums, if those are kept
  std::vector<profile_bucket> cells;    ///< (query buckets, key buckets); start, end and queries are the query bucket's

  const profile_bucket& at(index_t query_bucket, index_t key_bucket) const {
    return cells[query_bucket * key_buckets.count() + key_bucket];
  }
};

struct bucket_table_options {
  std::vector<index_t> key_edges{};           ///< key buckets by ascending edges, tokens; empty: the query buckets
  std::optional<pair_precision> precision{};  ///< as in profile_options
  bool keep_documents = false;                ///< keep sums by document, from which errors and merges come
};

namespace detail {

/// Keys by (group, key bucket): each group is split where the bucket changes; keys outside all buckets are left out.
struct bucketed_keys {
  keys_by_document groups;
  std::vector<index_t> bucket;        ///< (groups) key bucket
  std::vector<std::size_t> of_whole;  ///< (groups) the group that it is term of

  /// The groups of a bucket.
  std::vector<index_t> members(index_t b) const {
    std::vector<index_t> in;
    for (std::size_t g = 0; g < bucket.size(); ++g)
      if (bucket[g] == b) in.push_back(static_cast<index_t>(g));
    return in;
  }
};

inline bucketed_keys split_by_bucket(const keys_by_document& whole, const bucket_edges& edges) {
  bucketed_keys out;
  for (std::size_t g = 0; g + 1 < whole.offset.size(); ++g) {
    index_t last = -1;
    for (auto i = static_cast<std::size_t>(whole.offset[g]); i < static_cast<std::size_t>(whole.offset[g + 1]); ++i) {
      const index_t bucket = edges(whole.position[i]);
      if (bucket < 0) continue;
      if (bucket != last) {
        out.bucket.push_back(last = bucket);
        out.of_whole.push_back(g);
        out.groups.offset.push_back(static_cast<index_t>(out.groups.row.size()));
        out.groups.document.push_back(whole.document[g]);
      }
      out.groups.row.push_back(whole.row[i]);
      out.groups.position.push_back(whole.position[i]);
      if (!whole.key_document.empty()) out.groups.key_document.push_back(whole.key_document[i]);
    }
  }
  out.groups.offset.push_back(static_cast<index_t>(out.groups.row.size()));
  return out;
}

/// One cell, of the groups `members`; kept sums are spread over all documents, so that all cells speak of the same
/// ones.
inline profile_bucket table_cell(const query_model& model, index_t b, const bucketed_keys& keys,
                                 const std::vector<index_t>& members, const pair_sums& sums, bool same,
                                 std::size_t keep_documents) {
  profile_bucket cell;
  cell.start = model.buckets.start(b);
  cell.end = model.buckets.end(b);
  cell.queries = model.bucket[b].queries;
  fill_bucket(cell, sums, b, members, same);
  std::vector<double> sum(keep_documents), weight(keep_documents);
  for (std::size_t i = 0; keep_documents > 0 && i < members.size(); ++i) {
    const std::size_t document = keys.of_whole[members[i]];
    sum[document] = cell.document_sum[i];
    weight[document] = cell.document_weight[i];
  }
  cell.document_sum = std::move(sum);
  cell.document_weight = std::move(weight);
  return cell;
}

}  // namespace detail

/// The table of each head of a layer, by the same kernels and pair sets as `plasticity_profile`: a weight's ranks count
/// the keys of the pair's document and key bucket. Throws as that does.
template <context Context, class T, memory_space S, pair_set Pairs = all_pairs>
std::vector<plasticity_bucket_table> bucket_table(Context& ctx, const std::vector<query_model>& models,
                                                  const layer_view<T, S>& layer, const Pairs& pairs = {},
                                                  const bucket_table_options& options = {}) {
  check_shapes(layer);
  const auto& set = detail::described(pairs);
  const auto problems = detail::problems_of("bucket_table", models, layer);
  if (models.empty()) return {};
  const auto edges = options.key_edges.empty() ? models[0].buckets : bucket_edges(options.key_edges);
  const auto whole = detail::order_keys_by_document(ctx, layer, set.across_documents);
  const auto keys = detail::split_by_bucket(whole, edges);
  const auto sums =
      detail::sums_over(ctx, layer, keys.groups, problems, detail::request_of(set, options.precision), set);
  std::vector<std::vector<index_t>> members;
  for (index_t c = 0; c < edges.count(); ++c) members.push_back(keys.members(c));
  std::vector<plasticity_bucket_table> tables;
  for (std::size_t h = 0; h < models.size(); ++h) {
    plasticity_bucket_table table{
        name_of(models[h].covariance), fingerprint(models[h]), models[h].buckets, edges, {}, {}};
    if (options.keep_documents) table.documents = whole.document;
    for (index_t b = 0; b < table.query_buckets.count(); ++b)
      for (const auto& groups : members)
        table.cells.push_back(detail::table_cell(models[h], b, keys, groups, sums[h], set.documents_weigh_same,
                                                 options.keep_documents ? whole.document.size() : 0));
    tables.push_back(std::move(table));
  }
  return tables;
}

/// The same for one head.
template <context Context, class T, memory_space S, pair_set Pairs = all_pairs>
plasticity_bucket_table bucket_table(Context& ctx, const query_model& model, const head_view<T, S>& head,
                                     const Pairs& pairs = {}, const bucket_table_options& options = {}) {
  return std::move(bucket_table(ctx, std::vector<query_model>{model}, as_layer(head), pairs, options).front());
}

}  // namespace qkgeom
