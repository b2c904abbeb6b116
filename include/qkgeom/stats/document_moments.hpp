// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

/// Documents in blocks: the document with rank r among the ascending ids is in block r modulo `count`.
struct document_blocks {
  std::vector<std::int32_t> document;  ///< ids, ascending
  index_t count = 0;
  bool as_stored = false;  ///< blocks are numbered as in stored moments, not by rank

  index_t rank(std::int32_t id) const {
    return std::lower_bound(document.begin(), document.end(), id) - document.begin();
  }
  index_t operator()(std::int32_t id) const { return rank(id) % count; }
  bool operator==(const document_blocks&) const = default;
};

/// Divides documents into at most `max_blocks` blocks; `ids` may be in any order and repeat.
inline document_blocks blocks_of(std::vector<std::int32_t> ids, index_t max_blocks) {
  require(max_blocks > 0, "blocks_of: at least one block of documents is needed, not ", max_blocks);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto count = std::min<index_t>(max_blocks, ids.size());
  return {std::move(ids), count};
}

/// Appends the documents of a layer's queries and keys to `ids`, possibly with repetitions.
template <context Context, class T, memory_space S>
void add_documents(Context& ctx, const layer_view<T, S>& layer, std::vector<std::int32_t>& ids) {
  for (const auto* side : {&layer.q_document, &layer.k_document}) {
    const auto documents = ctx.host_copy(*side);
    for (const std::int32_t id : documents.view())
      if (ids.empty() || ids.back() != id) ids.push_back(id);
  }
}

/// Moments of one head's queries or keys in one block of documents, and of the differences between rows of a document.
struct block_moments {
  row_moments rows;                 ///< with the full scatter
  std::vector<double> differences;  ///< (d, d) sum over pairs i < j of rows of one document of (x_i - x_j)(x_i - x_j)'
  double pairs = 0;                 ///< number of these pairs

  static block_moments zero(index_t dim) {
    return {row_moments::zero(dim, scatter_kind::full), std::vector<double>(dim * dim), 0};
  }
};

/// Adds another block's rows and pairs; no document may be in both.
inline void merge(block_moments& into, const block_moments& from) {
  merge(into.rows, from.rows);
  into.differences = dense::sum(std::move(into.differences), from.differences);
  into.pairs += from.pairs;
}

/// Merges the moments of all blocks but `left_out`; -1 leaves none out.
inline block_moments merged_without(const std::vector<block_moments>& blocks, index_t left_out) {
  auto all = block_moments::zero(blocks.at(0).rows.dim());
  for (std::size_t b = 0; b < blocks.size(); ++b)
    if (b != static_cast<std::size_t>(left_out)) merge(all, blocks[b]);
  return all;
}

namespace detail {

/// Returns the ends of stretches of rows that hold `count` documents each; one if documents' rows are not adjacent.
inline std::vector<index_t> document_stretches(const vector_view<const std::int32_t>& document, index_t count) {
  std::vector<index_t> ends;
  std::vector<std::int32_t> runs;
  for (index_t i = 1; i <= document.size; ++i)
    if (i == document.size || document[i] != document[i - 1]) {
      runs.push_back(document[i - 1]);
      if (runs.size() % count == 0 || i == document.size) ends.push_back(i);
    }
  std::sort(runs.begin(), runs.end());
  const bool adjacent = std::adjacent_find(runs.begin(), runs.end()) == runs.end();
  return adjacent ? ends : std::vector<index_t>{document.size};
}

/// Returns the block of one document with row moments `m`. The differences of n rows of scatter S sum to n S.
inline block_moments block_of_document(const row_moments& m) {
  const double count = static_cast<double>(m.count);
  return {m, dense::scaled(m.xx, count), 0.5 * count * (count - 1)};
}

}  // namespace detail

/// Returns moments per head and block of documents, (heads)(blocks), of one side's rows x (n, heads, d) with their
/// token positions and documents. Memory does not grow with the number of documents if each one's rows are adjacent.
template <context Context, class T, memory_space S>
std::vector<std::vector<block_moments>> moments_by_block(Context& ctx, const char* side, const tensor_view<T, S>& x,
                                                         const vector_view<const std::int32_t, S>& position,
                                                         const vector_view<const std::int32_t, S>& document,
                                                         const document_blocks& blocks) {
  constexpr index_t documents_at_once = 32;
  std::vector<std::vector<block_moments>> result(x.heads,
                                                 std::vector<block_moments>(blocks.count, block_moments::zero(x.dim)));
  const auto ids = ctx.host_copy(document);
  index_t begin = 0;
  for (const index_t end : detail::document_stretches(ids.view(), documents_at_once)) {
    const index_t n = end - begin;
    std::vector<std::int32_t> documents(ids.view().begin() + begin, ids.view().begin() + end), row(documents);
    std::sort(documents.begin(), documents.end());
    documents.erase(std::unique(documents.begin(), documents.end()), documents.end());
    for (auto& id : row)
      id = static_cast<std::int32_t>(std::lower_bound(documents.begin(), documents.end(), id) - documents.begin());
    const tensor_view<T, S> rows{x.data + begin * x.row_stride, n, x.heads, x.dim, x.row_stride, x.head_stride};
    const auto found = ctx.moments(side, rows, {position.data + begin, n}, row, documents.size(), scatter_kind::full);
    ctx.for_each(x.heads, [&](index_t h) {
      for (std::size_t e = 0; e < documents.size(); ++e)
        merge(result[h][blocks(documents[e])], detail::block_of_document(found[h].bucket[e]));
    });
    begin = end;
  }
  return result;
}

}  // namespace qkgeom
