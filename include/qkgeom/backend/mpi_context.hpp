// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/document_tree.hpp"
#include "qkgeom/backend/detail/shared_sums.hpp"
#include "qkgeom/context/context.hpp"
#include "qkgeom/core/bytes.hpp"
#include "qkgeom/core/head.hpp"
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
/// Drawn pairs and pairs across documents need the keys of all documents: those of a key head are gathered in the host
/// memory of one process, which sums them, so a process holds all keys of its share of the heads. What sorts or looks
/// up single rows or pairs gathers a layer's rows on every process. Every process holds positions and documents of all
/// keys, about 30 bytes per key. An error on one process is thrown on all as a `group_error`. `ctx` and `group` must
/// live longer.
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

  /// The values of all processes, by rank.
  template <class V>
  std::vector<V> of_all(const std::vector<V>& own) {
    std::vector<V> all;
    for (const auto& bytes : group_->gather(bytes_of(own)))
      for (auto& x : from_bytes<std::vector<V>>(bytes)) all.push_back(std::move(x));
    return all;
  }

  /// Documents and positions (n) of one side's rows of all processes, from those of this one.
  backend::rows_of_documents rows_of_all(const char* side, const vector_view<const std::int32_t>& position,
                                         const vector_view<const std::int32_t>& document) {
    backend::held_rows own;
    group_->begin([&] { own.runs = backend::runs_of(side, document); });
    for (const auto& run : own.runs)
      own.position.insert(own.position.end(), position.begin() + run.first, position.begin() + run.first + run.rows);
    const auto held = of_all(std::vector<backend::held_rows>{own});
    struct piece {
      backend::document_run run;
      std::size_t process;
      index_t begin;  ///< of its positions
    };
    std::vector<piece> pieces;
    for (std::size_t r = 0; r < held.size(); ++r)
      for (index_t begin = 0; const auto& run : held[r].runs)
        pieces.push_back({run, r, std::exchange(begin, begin + run.rows)});
    std::sort(pieces.begin(), pieces.end(),
              [](const auto& a, const auto& b) { return a.run.document < b.run.document; });
    backend::rows_of_documents all;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const auto& [run, process, begin] = pieces[p];
      if (p > 0 && run.document == pieces[p - 1].run.document) refuse_twice(side, run.document);
      const auto first = held[process].position.begin() + begin;
      all.position.insert(all.position.end(), first, first + run.rows);
      all.document.insert(all.document.end(), run.rows, run.document);
      const bool here = process == static_cast<std::size_t>(group_->rank());
      for (index_t i = 0; i < run.rows; ++i) all.row.push_back(here ? run.first + i : -1);
    }
    return all;
  }

  /// f(the context behind this one, the layer's rows of all documents, ascending), on each process, for what sorts or
  /// looks up single rows or pairs: each process holds all rows of the layer meanwhile and does all the work.
  template <class T, class F>
  auto on_all_rows(const layer_view<T>& layer, const F& f) {
    group_->begin([&] { check_shapes(layer); });
    const std::vector<index_t> shape{layer.q.heads, layer.k.heads, layer.q.dim, layer.window.value_or(-1)};
    group_->agree(bytes_of(shape) + bytes_of(layer.key_of_query), "heads or window of the layer");
    const auto q = rows_of_all("q", layer.q_position, layer.q_document),
               k = rows_of_all("k", layer.k_position, layer.k_document);
    const auto q_values = values_of_all(layer.q, q.row), k_values = values_of_all(layer.k, k.row);
    const auto nq = static_cast<index_t>(q.row.size()), nk = static_cast<index_t>(k.row.size()), d = layer.q.dim;
    const layer_view<T> all{{q_values.data(), nq, layer.q.heads, d, d, nq * d},
                            {q.position.data(), nq},
                            {q.document.data(), nq},
                            {k_values.data(), nk, layer.k.heads, d, d, nk * d},
                            {k.position.data(), nk},
                            {k.document.data(), nk},
                            layer.key_of_query,
                            layer.window};
    std::optional<std::invoke_result_t<const F&, Context&, const layer_view<T>&>> found;
    group_->begin([&] { found.emplace(f(*ctx_, all)); });
    return std::move(*found);
  }

  /// Refuses rows: without their documents it cannot sum them in an order that depends on documents alone.
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
    const auto of_run = [&](const backend::document_run& run, const tensor_view<const T, space>& rows) {
      return ctx_->moments(side, rows, {position.data + run.first, run.rows},
                           {bucket.begin() + run.first, bucket.begin() + run.first + run.rows}, buckets, per_bucket);
    };
    auto all = merged_documents(
        side, x, document, buckets, 1, [](std::int32_t) { return 0; }, of_run, backend::merge_heads);
    if (all[0]) return std::move(*all[0]);
    return ctx_->moments(side, x, position, bucket, buckets, per_bucket);  // no row anywhere
  }

  /// For each of `blocks` blocks, value(moments of all rows by head) of each document, merged; none for a block without
  /// rows. Document e is of block block_of(e). `moments_by_block` calls it.
  template <class T, class BlockOf, class ValueOf, class Merge>
  auto merged_by_block(const char* side, const tensor_view<const T, space>& x,
                       const vector_view<const std::int32_t, space>& position, const documents_view& document,
                       index_t blocks, const BlockOf& block_of, const ValueOf& value, const Merge& merge) {
    const auto of_run = [&](const backend::document_run& run, const tensor_view<const T, space>& rows) {
      const std::vector<std::int32_t> no_bucket(run.rows, -1);
      return value(ctx_->moments(side, rows, {position.data + run.first, run.rows}, no_bucket, 0, scatter_kind::full));
    };
    return merged_documents(side, x, document, 0, blocks, block_of, of_run, merge);
  }

  /// See cpu_context::symmetric_eigen. All processes must give the same matrices.
  std::vector<eigen_system> symmetric_eigen(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return shared_out<eigen_system>(matrices, [&](const auto& own) { return ctx_->symmetric_eigen(own, d); });
  }

  /// See cpu_context::cholesky. All processes must give the same matrices.
  std::vector<semidefinite_root> cholesky(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return shared_out<semidefinite_root>(matrices, [&](const auto& own) { return ctx_->cholesky(own, d); });
  }

  /// See cpu_context::gaussian_pairs; `groups` as `order_keys_by_document` gives them.
  template <class T>
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T, space>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request) {
    return gaussian_sums(k, groups, problems, request);
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
    return gaussian_sums(k, groups, problems, request, weight);
  }

  /// See cpu_context::empirical_pairs; `groups` as `order_keys_by_document` gives them. All processes must give the
  /// same queries.
  template <class T>
  std::vector<pair_sums> empirical_pairs(const tensor_view<const T, space>& q, const tensor_view<const T, space>& k,
                                         const keys_by_document& groups, const std::vector<empirical_problem>& problems,
                                         std::optional<pair_precision> precision = {}) {
    if constexpr (space == memory_space::host)
      group_->agree(backend::digest_of(q, problems), "observed queries");
    else
      refuse_device("observed queries");
    const auto sums = [&](const auto& keys, const auto& some, const auto& of) {
      return ctx_->empirical_pairs(q, keys, some, of, precision);
    };
    return by_document_or_head(k, groups, problems, false, sums);
  }

 private:
  [[noreturn]] static void refuse_twice(const char* side, std::int32_t document) {
    throw group_error("mpi_context: two processes hold rows of " + std::string(side) + " of document " +
                      std::to_string(document));
  }
  static void refuse_device(const char* what) {
    fail("mpi_context: ", what, " of all documents come together in host memory; put an uploading_context before the ",
         "context of the device");
  }

  /// The documents of all processes, ascending.
  std::vector<std::int32_t> all_documents(const char* side, const std::vector<backend::document_run>& runs) {
    std::vector<std::int32_t> own;
    for (const auto& run : runs) own.push_back(run.document);
    auto all = of_all(own);
    std::sort(all.begin(), all.end());
    const auto twice = std::adjacent_find(all.begin(), all.end());
    if (twice != all.end()) refuse_twice(side, *twice);
    return all;
  }

  /// For each of `blocks` blocks, of_run(run, its rows) of each document, merged; none for a block without rows.
  template <class T, class BlockOf, class OfRun, class Merge>
  auto merged_documents(const char* side, const tensor_view<const T, space>& x, const documents_view& document,
                        index_t buckets, index_t blocks, const BlockOf& block_of, const OfRun& of_run,
                        const Merge& merge) {
    using value = std::invoke_result_t<const OfRun&, const backend::document_run&, const tensor_view<const T, space>&>;
    require(document.size == x.rows, "mpi_context: moments of ", side, " need the document of each row");
    std::vector<backend::document_run> runs;
    group_->begin([&] { runs = backend::runs_of(side, ctx_->host_copy(document).view()); });
    group_->agree(bytes_of(std::vector<index_t>{x.heads, x.dim, buckets, blocks}),
                  "shape of the rows or of the query buckets");
    std::vector<std::vector<std::int32_t>> documents(blocks);
    for (const std::int32_t e : all_documents(side, runs)) documents[block_of(e)].push_back(e);
    std::vector<backend::document_tree<value>> trees;
    for (const auto& ids : documents) trees.emplace_back(static_cast<index_t>(ids.size()));
    group_->begin([&] {
      for (const auto& run : runs) {
        const auto& ids = documents[block_of(run.document)];
        const index_t place = std::lower_bound(ids.begin(), ids.end(), run.document) - ids.begin();
        const tensor_view<const T, space> rows{
            x.data + run.first * x.row_stride, run.rows, x.heads, x.dim, x.row_stride, x.head_stride};
        trees[block_of(run.document)].add({0, place, of_run(run, rows)}, merge);
      }
    });
    std::vector<std::optional<value>> all(blocks);
    for (index_t b = 0; b < blocks; ++b)
      if (!documents[b].empty()) all[b] = all_of(trees[b], static_cast<index_t>(documents[b].size()), merge);
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

  template <class T, class... Weight>
  std::vector<pair_sums> gaussian_sums(const tensor_view<const T, space>& k, const keys_by_document& groups,
                                       const std::vector<pair_problem>& problems, const pair_request& request,
                                       const Weight&... weight) {
    const auto sums = [&](const auto& keys, const auto& some, const auto& of) {
      return ctx_->gaussian_pairs(keys, some, of, request, weight...);
    };
    return by_document_or_head(k, groups, problems, request.sample.pairs > 0, sums);
  }

  /// The sums f(k, groups, problems): a document at a time if each has pairs of its own, else a key head at a time.
  template <class T, class Problem, class F>
  std::vector<pair_sums> by_document_or_head(const tensor_view<const T, space>& k, const keys_by_document& groups,
                                             const std::vector<Problem>& problems, bool drawn, const F& f) {
    if (!drawn && groups.key_document.empty())
      return by_document(groups, problems.size(), [&](const auto& one) { return f(k, one, problems); });
    if constexpr (space == memory_space::host) return by_head(k, groups, problems, drawn, f);
    refuse_device("keys, for drawn pairs or pairs across documents,");
    return {};
  }

  /// f(keys of one document) for each document of this process; the sums of all documents.
  template <class F>
  std::vector<pair_sums> by_document(const keys_by_document& groups, std::size_t problems, const F& f) {
    using heatmaps = std::vector<backend::heatmap_sums>;
    if (groups.groups() == 0) return f(groups);  // no key anywhere
    std::vector<backend::one_document> own;
    backend::document_tree<heatmaps> tree(groups.groups());
    group_->begin([&] {
      for (index_t g = 0; g < groups.groups(); ++g) {
        if (groups.row[groups.offset[g]] < 0) continue;
        auto sums = f(backend::keys_of(groups, g));
        tree.add({0, g, backend::take_heatmaps(sums)}, backend::merge_heatmaps);
        own.push_back({g, std::move(sums)});
      }
    });
    std::vector<pair_sums> all(problems);
    for (auto& s : all) s.groups = groups.groups();
    for (const auto& document : of_all(own)) add_document(all, document);
    put_heatmaps(all, all_of(tree, groups.groups(), backend::merge_heatmaps));
    return all;
  }

  /// f(keys of one key head, groups, its problems) for each key head, whose keys come together on one process; the sums
  /// of all problems. `numbered`: problems keep their numbers, which draws depend on.
  template <class T, class Problem, class F>
  std::vector<pair_sums> by_head(const tensor_view<const T>& k, const keys_by_document& groups,
                                 const std::vector<Problem>& problems, bool numbered, const F& f) {
    group_->agree(bytes_of(std::vector<index_t>{k.heads, k.dim}), "shape of the keys");
    const auto size = static_cast<index_t>(group_->size()), rank = static_cast<index_t>(group_->rank());
    std::vector<std::vector<T>> heads(k.heads);
    for (index_t h = 0; h < k.heads; ++h) gather_rows(k.head(h), groups.row, h % size == rank ? &heads[h] : nullptr);
    auto gathered = groups;
    std::iota(gathered.row.begin(), gathered.row.end(), std::int64_t{0});
    std::vector<pair_sums> solved(problems.size());
    group_->begin([&] {
      for (index_t h = rank; h < k.heads; h += size) {
        std::vector<Problem> some;
        std::vector<std::size_t> numbers;
        for (std::size_t p = 0; p < problems.size(); ++p) {
          const bool of_head = problems[p].key_head == h;
          if (!of_head && !numbered) continue;
          numbers.push_back(p);
          some.push_back(of_head ? problems[p] : Problem{});
          some.back().key_head = 0;
        }
        const auto keys = packed_tensor<const T>(heads[h].data(), static_cast<index_t>(groups.row.size()), 1, k.dim);
        auto sums = f(keys, gathered, some);
        for (std::size_t i = 0; i < numbers.size(); ++i)
          if (problems[numbers[i]].key_head == h) solved[numbers[i]] = std::move(sums[i]);
      }
    });
    index_t of_rank = 0;
    std::vector<pair_sums> all(problems.size());
    group_->collect(bytes_of(solved), [&](const std::string& bytes) {
      auto theirs = from_bytes<std::vector<pair_sums>>(bytes);
      for (std::size_t p = 0; p < problems.size(); ++p)
        if (problems[p].key_head % size == of_rank) all[p] = std::move(theirs[p]);
      ++of_rank;
    });
    return from_bytes<std::vector<pair_sums>>(group_->broadcast(bytes_of(all)));
  }

  /// Rows of all processes, (heads, n, d); `row` (n) is each one's number on this process, -1 if another holds it.
  template <class T>
  std::vector<T> values_of_all(const tensor_view<const T>& x, const std::vector<std::int64_t>& row) {
    std::vector<T> all, head;
    all.reserve(row.size() * x.heads * x.dim);
    for (index_t h = 0; h < x.heads; ++h) {
      gather_rows(x.head(h), row, &head);
      all.insert(all.end(), head.begin(), head.end());
    }
    return all;
  }

  /// The rows (n, d) of one head of all processes into `all` where it is wanted.
  template <class T>
  void gather_rows(const matrix_view<const T>& x, const std::vector<std::int64_t>& row, std::vector<T>* all) {
    const auto n = static_cast<index_t>(row.size());
    const index_t row_bytes = x.cols * static_cast<index_t>(sizeof(T)),
                  piece = std::max<index_t>(1, piece_bytes / row_bytes);
    if (all) all->resize(n * x.cols);
    for (index_t begin = 0; begin < n; begin += piece) {
      backend::numbered_rows<T> own;
      for (index_t i = begin; i < std::min(n, begin + piece); ++i) {
        if (row[i] < 0) continue;
        own.number.push_back(i);
        own.values.insert(own.values.end(), x.row(row[i]), x.row(row[i]) + x.cols);
      }
      const auto texts = group_->gather(bytes_of(own));
      if (!all) continue;
      for (const auto& text : texts) {
        const auto rows = from_bytes<backend::numbered_rows<T>>(text);
        for (std::size_t i = 0; i < rows.number.size(); ++i)
          std::copy_n(rows.values.begin() + i * x.cols, x.cols, all->begin() + rows.number[i] * x.cols);
      }
    }
  }

  static constexpr index_t piece_bytes = index_t{1} << 20;  ///< rows that travel at a time

  Context* ctx_;
  process_group* group_;
};

}  // namespace qkgeom
