// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/document_tree.hpp"
#include "qkgeom/backend/detail/shared_sums.hpp"
#include "qkgeom/context/context.hpp"
#include "qkgeom/core/bytes.hpp"
#include "qkgeom/processes/process_group.hpp"

namespace qkgeom {

/// Runs analyses on rows that several processes hold, each the rows of its documents in any memory of `Context`, its
/// own context. All processes of `group` make the same calls in the same order, with query buckets of the same edges
/// (give `context_length`), and all get the same results: moments are summed over all documents, pair sums are kept per
/// document and gathered, eigenproblems are shared out. Results depend on the documents alone, to the last bit: not on
/// the number of processes or who holds which document. They differ from those of `Context` over all rows at once by
/// rounding, since each document is summed alone (docs/clusters.md).
///
/// Rows of a document must be adjacent on each side and lie on one process; no two documents share a number.
/// What needs the rows of all documents at once is refused: drawn pairs, pairs across documents, moments of rows whose
/// documents are not given, as errors of the geometry take them. Observed queries must be the same on all processes,
/// gathered before. An error on one process is thrown on all as a `group_error`. `ctx` and `group` must live longer.
template <context Context>
class mpi_context {
 public:
  static constexpr memory_space space = Context::space;
  using documents_view = vector_view<const std::int32_t, space>;

  mpi_context(Context& ctx, process_group& group) : ctx_(&ctx), group_(&group) {}

  /// Calls f(i) for i in [0, n), in parallel, on this process.
  template <class F>
  void for_each(index_t n, F&& f) {
    ctx_->for_each(n, std::forward<F>(f));
  }

  template <class T>
  host_values<std::remove_const_t<T>> host_copy(const vector_view<T, space>& x) {
    return ctx_->host_copy(x);
  }

  /// Refuses rows: without their documents it cannot sum them.
  template <class T>
  std::vector<side_moments> moments(const char* side, const tensor_view<const T, space>& x,
                                    const vector_view<const std::int32_t, space>& position,
                                    const std::vector<std::int32_t>& bucket, index_t buckets, scatter_kind per_bucket) {
    return moments_of_documents(side, x, position, bucket, buckets, per_bucket, {});
  }

  /// See cpu_context::moments; document (n): that of each row. `accumulate` calls it.
  template <class T>
  std::vector<side_moments> moments_of_documents(const char* side, const tensor_view<const T, space>& x,
                                                 const vector_view<const std::int32_t, space>& position,
                                                 const std::vector<std::int32_t>& bucket, index_t buckets,
                                                 scatter_kind per_bucket, const documents_view& document) {
    require(document.size == x.rows, "mpi_context: moments of ", side, " need the document of each row");
    std::vector<backend::document_run> runs;
    group_->begin([&] { runs = backend::runs_of(side, ctx_->host_copy(document).view()); });
    group_->agree(bytes_of(std::vector<index_t>{x.heads, x.dim, buckets}), "shape of the rows or of the query buckets");
    const auto all = all_documents(side, runs);
    backend::document_tree<std::vector<side_moments>> tree(static_cast<index_t>(all.size()));
    group_->begin([&] {
      for (const auto& run : runs) {
        const tensor_view<const T, space> rows{
            x.data + run.first * x.row_stride, run.rows, x.heads, x.dim, x.row_stride, x.head_stride};
        const std::vector<std::int32_t> of_run(bucket.begin() + run.first, bucket.begin() + run.first + run.rows);
        tree.add({0, place(all, run.document),
                  ctx_->moments(side, rows, {position.data + run.first, run.rows}, of_run, buckets, per_bucket)},
                 backend::merge_heads);
      }
    });
    if (!all.empty()) return all_of(tree, static_cast<index_t>(all.size()), backend::merge_heads);
    return ctx_->moments(side, x, position, bucket, buckets, per_bucket);  // no row anywhere
  }

  /// See cpu_context::symmetric_eigen. All processes must give the same matrices.
  std::vector<eigen_system> symmetric_eigen(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return shared_out<eigen_system>(matrices, [&](const auto& own) { return ctx_->symmetric_eigen(own, d); });
  }

  /// See cpu_context::cholesky. All processes must give the same matrices.
  std::vector<semidefinite_root> cholesky(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return shared_out<semidefinite_root>(matrices, [&](const auto& own) { return ctx_->cholesky(own, d); });
  }

  /// The keys of this process among the documents of all: a group for each document, empty where another process holds
  /// its keys. `order_keys_by_document` calls it.
  keys_by_document with_all_documents(keys_by_document own) {
    std::vector<backend::document_run> runs;
    for (index_t g = 0; g < own.groups(); ++g) runs.push_back({own.document[g], 0, 0});
    group_->begin(
        [&] { require(own.key_document.empty(), "mpi_context: pairs across documents need all keys in one process"); });
    const auto all = all_documents("k", runs);
    auto keys = own;
    keys.document = all;
    keys.offset.assign(1, 0);
    std::size_t g = 0;
    for (const std::int32_t document : all) {
      const bool here = g < own.document.size() && own.document[g] == document;
      keys.offset.push_back(here ? own.offset[++g] : keys.offset.back());
    }
    if (all.empty()) keys.offset.clear();
    return keys;
  }

  /// See cpu_context::gaussian_pairs; `groups` as `with_all_documents` gives them.
  template <class T>
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T, space>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request) {
    require_all_pairs(request);
    return by_document(groups, problems.size(),
                       [&](const auto& one) { return ctx_->gaussian_pairs(k, one, problems, request); });
  }
  /// The same with a weight that runs where the other context computes.
  template <class T, class Weight>
  requires requires(Context& ctx, const tensor_view<const T, space>& k, const keys_by_document& groups,
                    const std::vector<pair_problem>& problems, const pair_request& request, const Weight& weight) {
    ctx.gaussian_pairs(k, groups, problems, request, weight);
  }
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T, space>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request,
                                        const Weight& weight) {
    require_all_pairs(request);
    return by_document(groups, problems.size(),
                       [&](const auto& one) { return ctx_->gaussian_pairs(k, one, problems, request, weight); });
  }

  /// See cpu_context::empirical_pairs; `groups` as `with_all_documents` gives them. All processes must give the same
  /// queries.
  template <class T>
  std::vector<pair_sums> empirical_pairs(const tensor_view<const T, space>& q, const tensor_view<const T, space>& k,
                                         const keys_by_document& groups, const std::vector<empirical_problem>& problems,
                                         std::optional<pair_precision> precision = {}) {
    if constexpr (space == memory_space::host) group_->agree(backend::digest_of(q, problems), "observed queries");
    return by_document(groups, problems.size(),
                       [&](const auto& one) { return ctx_->empirical_pairs(q, k, one, problems, precision); });
  }

 private:
  static void require_all_pairs(const pair_request& request) {
    require(request.sample.pairs == 0,
            "mpi_context: drawn pairs are drawn among those of all documents, which need "
            "all keys in one process");
  }

  static index_t place(const std::vector<std::int32_t>& all, std::int32_t document) {
    return std::lower_bound(all.begin(), all.end(), document) - all.begin();
  }

  /// The documents of all processes, ascending.
  std::vector<std::int32_t> all_documents(const char* side, const std::vector<backend::document_run>& runs) {
    std::vector<std::int32_t> own, all;
    for (const auto& run : runs) own.push_back(run.document);
    for (const auto& bytes : group_->gather(bytes_of(own)))
      for (const std::int32_t document : from_bytes<std::vector<std::int32_t>>(bytes)) all.push_back(document);
    std::sort(all.begin(), all.end());
    const auto twice = std::adjacent_find(all.begin(), all.end());
    if (twice != all.end())
      throw group_error("mpi_context: two processes hold rows of " + std::string(side) + " of document " +
                        std::to_string(*twice));
    return all;
  }

  /// The value of all documents, on each process, from the nodes of all.
  template <class Value, class Merge>
  Value all_of(backend::document_tree<Value>& own, index_t documents, const Merge& merge) {
    using tree = backend::document_tree<Value>;
    tree whole(documents);
    group_->collect(bytes_of(own.take()), [&](const std::string& bytes) {
      for (auto& node : from_bytes<std::vector<typename tree::node>>(bytes)) whole.add(std::move(node), merge);
    });
    const auto root = whole.take();
    return from_bytes<Value>(group_->broadcast(root.empty() ? std::string() : bytes_of(root[0].value)));
  }

  /// f(matrices) with a share of the matrices on each process; the results of all.
  template <class Result, class F>
  std::vector<Result> shared_out(const std::vector<const std::vector<double>*>& matrices, const F& f) {
    const auto size = static_cast<std::size_t>(group_->size()), rank = static_cast<std::size_t>(group_->rank());
    std::vector<const std::vector<double>*> own;
    for (std::size_t i = rank; i < matrices.size(); i += size) own.push_back(matrices[i]);
    std::vector<Result> solved, all(matrices.size());
    group_->begin([&] { solved = f(own); });
    const auto texts = group_->gather(bytes_of(solved));
    for (std::size_t r = 0; r < size; ++r) {
      auto found = from_bytes<std::vector<Result>>(texts[r]);
      for (std::size_t i = 0; i < found.size(); ++i) all.at(r + i * size) = std::move(found[i]);
    }
    return all;
  }

  /// f(keys of one document) for each document of this process; the sums of all documents.
  template <class F>
  std::vector<pair_sums> by_document(const keys_by_document& groups, std::size_t problems, const F& f) {
    using heatmaps = std::vector<backend::heatmap_sums>;
    std::vector<backend::one_document> own;
    backend::document_tree<heatmaps> tree(groups.groups());
    group_->begin([&] {
      for (index_t g = 0; g < groups.groups(); ++g) {
        if (groups.offset[g] == groups.offset[g + 1]) continue;
        auto sums = f(backend::keys_of(groups, g));
        tree.add({0, g, backend::take_heatmaps(sums)}, backend::merge_heatmaps);
        own.push_back({g, std::move(sums)});
      }
    });
    std::vector<pair_sums> all(problems);
    for (auto& s : all) s.groups = groups.groups();
    for (const auto& bytes : group_->gather(bytes_of(own)))
      for (const auto& document : from_bytes<std::vector<backend::one_document>>(bytes)) add_document(all, document);
    if (groups.groups() > 0)
      put_heatmaps(all, all_of(tree, groups.groups(), backend::merge_heatmaps));
    else
      all = f(groups);  // no key anywhere
    return all;
  }

  Context* ctx_;
  process_group* group_;
};

}  // namespace qkgeom
