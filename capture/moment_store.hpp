// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <vector>

#include "capture/moment_function.hpp"
#include "qkgeom/io/capture_moments.hpp"

namespace qkgeom {

/// Moments of every token of the captured heads, over the documents of one block.
class moment_store {
 public:
  /// `manifest` must live longer. Tokens before `skip_first` are left out.
  moment_store(const capture_manifest& manifest, bucket_edges buckets, moment_function moments, index_t skip_first);

  /// Adds all tokens of one layer of a document: q (tokens, query heads, d), k (tokens, key heads, d).
  void add(index_t layer, tensor_view<const float> q, tensor_view<const float> k);

  /// Writes what was added so far.
  void write(const std::filesystem::path& path, const capture_manifest& manifest) const;
  /// Goes on with what a file holds. A file does not hold every bit: who adds more after `write` reads first, so that a
  /// capture that is interrupted and goes on from the file ends with the same bits.
  void read(const std::filesystem::path& path);
  void clear();

 private:
  template <class Add>
  void each_bucket(const char* side, tensor_view<const float> x, const std::vector<index_t>& heads, Add&& add);

  const capture_manifest* manifest_;
  bucket_edges buckets_;
  moment_function moments_;
  index_t skip_first_;
  std::vector<token_moments> layers_;  // as manifest_->layers
  std::vector<float> packed_;
  std::vector<std::int32_t> position_;
};

}  // namespace qkgeom
