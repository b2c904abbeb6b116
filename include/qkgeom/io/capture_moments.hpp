// SPDX-License-Identifier: MIT
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/capture_set.hpp"
#include "qkgeom/stats/document_moments.hpp"
#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

/// Moments of every token of a layer's captured heads over one block of documents: in total and by bucket, for queries
/// with the covariance of every bucket, for keys with its diagonal.
struct token_moments {
  layer_moments moments;
  std::vector<std::vector<double>> k_differences;  ///< (key heads)(d, d), see `block_moments::differences`
  double k_pairs = 0;
};

/// Adds another block of the same layer. Throws `error` if heads or buckets differ.
void merge(token_moments& into, const token_moments& from);

/// Returns the name of moment file b of a capture folder: "moments-03.safetensors".
inline std::string moments_name(index_t b) {
  char name[48];
  std::snprintf(name, sizeof name, "moments-%02lld.safetensors", static_cast<long long>(b));
  return name;
}

/// Writes the moments of one block of documents: every layer of the manifest over the same bucket edges, and the
/// manifest without its shards. Throws `error` unless there is an entry per layer. Returns the file's SHA-256.
std::string write_moments_file(const std::filesystem::path& path, capture_manifest manifest,
                               std::span<const token_moments> layers);

/// One file of moments. Throws `error` naming file and tensor where the file disagrees with the manifest.
class moments_file {
 public:
  moments_file(std::shared_ptr<const safetensors_file> file, capture_manifest manifest);
  const bucket_edges& edges() const { return edges_; }

  /// Reads the moments of one layer, by its number in the model. Throws `error` if it was not captured.
  token_moments read(index_t layer) const;

 private:
  std::shared_ptr<const safetensors_file> file_;
  capture_manifest manifest_;
  bucket_edges edges_;
};

/// Opens the moments of every token that a capture holds beside its rows, one entry per block of documents: the files
/// moments-BB.safetensors of its folder, from `first_moment_block` on, or the same tensors inside a single file.
/// Returns an empty list without moments.
std::vector<moments_file> open_moments(const capture& c);

/// Moments of every token of a set of captures. Block b of one capture is merged with block b of the others; parts of
/// one capture have different blocks of it.
class set_moments {
 public:
  /// Opens the moments of `source` over `buckets`, by default the buckets of the files. Returns no value unless the set
  /// has all its rows and all captures hold moments over the same edges, which refine `buckets`. Throws `error` on a
  /// damaged file.
  static std::optional<set_moments> open(const capture_set& source, const std::optional<bucket_edges>& buckets = {});
  index_t blocks() const { return blocks_; }

  /// Reads the moments of a layer over `buckets`, one entry per block with documents.
  std::vector<token_moments> read(index_t layer) const;

 private:
  set_moments() = default;
  std::vector<std::vector<moments_file>> files_;  // by capture, block
  std::vector<index_t> first_;                    // by capture: number of its first block
  bucket_edges buckets_;
  index_t blocks_ = 0;
};

}  // namespace qkgeom
