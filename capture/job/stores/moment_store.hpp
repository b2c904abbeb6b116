// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "capture/job/stores/moment_function.hpp"
#include "qkgeom/io/capture_moments.hpp"

namespace qkgeom {

/// Moments of every token of the captured heads, over the documents of one block.
class moment_store {
 public:
  /// Refers to `manifest`, which must outlive the store. Leaves out tokens before `skip_first`.
  moment_store(const capture_manifest& manifest, bucket_edges buckets, moment_function moments, index_t skip_first);

  /// Adds a document in one layer: q (tokens, query heads, d), k (tokens, key heads, d).
  void add(index_t layer, tensor_view<const float> q, tensor_view<const float> k);

  /// Adds a chunk of a document from any memory; row 0 is token `first`, and chunks come in order. `moments(side, rows,
  /// position)` returns the moments of each head of `rows`, whose row 0 is token `position`.
  template <class T, memory_space S, class Moments>
  void add_chunk(index_t layer, index_t first, const tensor_view<const T, S>& q, const tensor_view<const T, S>& k,
                 const Moments& moments) {
    const auto total_of = [&](const char* side, tensor_view<const T, S> rows, const std::vector<index_t>& heads,
                              index_t position) {
      rows.data += heads.front() * rows.head_stride;
      rows.heads = heads.back() - heads.front() + 1;
      auto found = moments(side, rows, position);
      std::vector<row_moments> totals;
      for (const index_t head : heads) totals.push_back(std::move(found[head - heads.front()].total));
      return totals;
    };
    add_rows(layer, first, q, k, total_of);
  }
  /// Ends the document whose chunks were added.
  void end_document(index_t layer);

  /// Writes the moments so far. Returns the file's SHA-256.
  std::string write(const std::filesystem::path& path, const capture_manifest& manifest) const;
  /// Continues from a file. A file does not hold every bit, so a writer that adds more reads its file back first: a
  /// capture resumed from the file then ends with the same bits.
  void read(const std::filesystem::path& path);
  void clear();

 private:
  /// Adds rows from token `first` on. `total_of(side, rows, heads, position)` returns the moments of the heads of
  /// `rows`, whose row 0 is token `position`.
  template <class T, memory_space S, class TotalOf>
  void add_rows(index_t layer, index_t first, const tensor_view<const T, S>& q, const tensor_view<const T, S>& k,
                const TotalOf& total_of) {
    const index_t index = manifest_->find_layer(layer);
    if (index < 0) return;
    const captured_layer_info& info = manifest_->layers[index];
    each_bucket(q, first, [&](std::size_t bucket, const tensor_view<const T, S>& rows, index_t position) {
      take_queries(index, bucket, total_of("q", rows, info.query_heads, position));
    });
    each_bucket(k, first, [&](std::size_t bucket, const tensor_view<const T, S>& rows, index_t position) {
      take_keys(index, bucket, total_of("k", rows, info.key_heads, position));
    });
  }
  /// Calls f(bucket, rows, position of the first row) for each bucket with rows of x, whose row 0 is token `first`.
  template <class T, memory_space S, class F>
  void each_bucket(const tensor_view<const T, S>& x, index_t first, F&& f) const {
    for (index_t b = 0; b < buckets_.count(); ++b) {
      const index_t begin = std::max({buckets_.start(b), skip_first_, first});
      const index_t end = std::min(buckets_.end(b), first + x.rows);
      if (begin >= end) continue;
      tensor_view<const T, S> rows = x;
      rows.data += (begin - first) * x.row_stride;
      rows.rows = end - begin;
      f(b, rows, begin);
    }
  }
  void take_queries(std::size_t layer, std::size_t bucket, const std::vector<row_moments>& heads);
  void take_keys(std::size_t layer, std::size_t bucket, const std::vector<row_moments>& heads);

  const capture_manifest* manifest_;
  bucket_edges buckets_;
  moment_function moments_;
  index_t skip_first_;
  std::vector<token_moments> layers_;  // as manifest_->layers
  std::vector<row_moments> document_;  // moments of the current document's keys, by key head
  std::vector<float> packed_;
  std::vector<std::int32_t> position_;
};

}  // namespace qkgeom
