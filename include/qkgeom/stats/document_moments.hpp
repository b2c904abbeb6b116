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

/// Documents (documents) in blocks: the document of rank r among the ascending ids is in block r modulo `count`. With
/// as many blocks as documents each document is a block of its own.
struct document_blocks {
  std::vector<std::int32_t> document;  ///< ids, ascending
  index_t count = 0;
  bool as_stored = false;  ///< the blocks are those of stored moments, whatever the ranks are

  /// Rank of a document, which must be there.
  index_t rank(std::int32_t id) const {
    return std::lower_bound(document.begin(), document.end(), id) - document.begin();
  }
  index_t operator()(std::int32_t id) const { return rank(id) % count; }
  bool operator==(const document_blocks&) const = default;
};

/// Documents in at most `most` blocks; `ids` in any order, each once or more often.
inline document_blocks blocks_of(std::vector<std::int32_t> ids, index_t most) {
  require(most > 0, "blocks_of: at least one block of documents is needed, not ", most);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto count = std::min(most, static_cast<index_t>(ids.size()));
  return {std::move(ids), count};
}

/// Appends the documents of a layer's queries and keys to `ids`, most of them once.
template <class T, memory_space S>
void add_documents(const layer_view<T, S>& layer, std::vector<std::int32_t>& ids) {
  for (const auto* side : {&layer.q_document, &layer.k_document})
    for (const std::int32_t id : *side)
      if (ids.empty() || ids.back() != id) ids.push_back(id);
}

/// The documents of a layer's queries and keys in at most `most` blocks.
template <class T, memory_space S>
document_blocks blocks_of(const layer_view<T, S>& layer, index_t most) {
  std::vector<std::int32_t> ids;
  add_documents(layer, ids);
  return blocks_of(std::move(ids), most);
}

/// One block's moments of one head's queries or keys, and what two rows of one document differ by. `merge` gives those
/// of several blocks.
struct block_moments {
  row_moments rows;                 ///< with the full scatter
  std::vector<double> differences;  ///< (d, d) sum over pairs i < j of rows of one document of (x_i - x_j)(x_i - x_j)'
  double pairs = 0;                 ///< how many such pairs there are

  static block_moments zero(index_t dim) {
    const auto d = static_cast<std::size_t>(dim);
    return {row_moments::zero(dim, scatter_kind::full), std::vector<double>(d * d), 0};
  }
};

/// Adds another block's rows and pairs; a document must not stand in both.
inline void merge(block_moments& into, const block_moments& from) {
  merge(into.rows, from.rows);
  into.differences = dense::sum(std::move(into.differences), from.differences);
  into.pairs += from.pairs;
}

/// The moments of all blocks but `left_out` together; of all of them if that is -1.
inline block_moments merged_without(const std::vector<block_moments>& blocks, index_t left_out) {
  auto all = block_moments::zero(blocks.at(0).rows.dim());
  for (std::size_t b = 0; b < blocks.size(); ++b)
    if (static_cast<index_t>(b) != left_out) merge(all, blocks[b]);
  return all;
}

namespace detail {

/// Ends of the stretches of rows that hold `most` documents each; one stretch of all rows if a document's rows do not
/// stand together.
inline std::vector<index_t> document_stretches(const vector_view<const std::int32_t>& document, index_t most) {
  std::vector<index_t> ends;
  std::vector<std::int32_t> runs;
  for (index_t i = 1; i <= document.size; ++i)
    if (i == document.size || document[i] != document[i - 1]) {
      runs.push_back(document[i - 1]);
      if (static_cast<index_t>(runs.size()) % most == 0 || i == document.size) ends.push_back(i);
    }
  std::sort(runs.begin(), runs.end());
  const bool together = std::adjacent_find(runs.begin(), runs.end()) == runs.end();
  return together ? ends : std::vector<index_t>{document.size};
}

}  // namespace detail

/// Moments of each block of documents for each head of one side, (heads)(blocks), from the rows x (n, heads, d) with
/// their token positions and documents. The pairs of a document with n rows and scatter S about its mean sum up to n S,
/// so no pair is formed; memory does not grow with the number of documents where each one's rows stand together.
template <context Context, class T, memory_space S>
std::vector<std::vector<block_moments>> moments_by_block(Context& ctx, const char* side, const tensor_view<T, S>& x,
                                                         const vector_view<const std::int32_t, S>& position,
                                                         const vector_view<const std::int32_t, S>& document,
                                                         const document_blocks& blocks) {
  constexpr index_t documents_at_once = 32;
  std::vector<std::vector<block_moments>> result(x.heads,
                                                 std::vector<block_moments>(blocks.count, block_moments::zero(x.dim)));
  index_t begin = 0;
  for (const index_t end : detail::document_stretches(document, documents_at_once)) {
    const index_t n = end - begin;
    std::vector<std::int32_t> documents(document.begin() + begin, document.begin() + end), row(documents);
    std::sort(documents.begin(), documents.end());
    documents.erase(std::unique(documents.begin(), documents.end()), documents.end());
    for (auto& id : row)
      id = static_cast<std::int32_t>(std::lower_bound(documents.begin(), documents.end(), id) - documents.begin());
    const tensor_view<T, S> rows{x.data + begin * x.row_stride, n, x.heads, x.dim, x.row_stride, x.head_stride};
    const auto found = ctx.moments(side, rows, {position.data + begin, n}, row, static_cast<index_t>(documents.size()),
                                   scatter_kind::full);
    ctx.for_each(x.heads, [&](index_t head) {
      const auto h = static_cast<std::size_t>(head);
      for (std::size_t e = 0; e < documents.size(); ++e) {
        const auto& m = found[h].bucket[e];
        const double count = static_cast<double>(m.count);
        merge(result[h][blocks(documents[e])], block_moments{m, dense::scaled(m.xx, count), 0.5 * count * (count - 1)});
      }
    });
    begin = end;
  }
  return result;
}

}  // namespace qkgeom
