// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "capture/forward/softmax_request.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/safetensors.hpp"

namespace qkgeom {

/// Softmax statistics of the captured heads, and losses, of each document of one shard.
class statistics_store {
 public:
  /// Refers to `manifest` and `model`, which must outlive the store.
  statistics_store(const capture_manifest& manifest, const decoder_description& model, bucket_edges buckets,
                   bool softmax, bool losses);

  /// Makes room for the documents of the next batch, empty ones too; `add` and `add_losses` number them from 0. `more`
  /// documents follow before `clear`.
  void add_documents(index_t count, index_t more);

  /// Draws the queries of a document whose softmax is measured in a layer: each bucket is cut into the manifest's
  /// number of equal stretches with one query from each; a smaller bucket gives all. The seed and `number`, the
  /// document's in the whole capture, decide the draw. Returns no value if nothing is measured.
  std::optional<softmax_request> measured(index_t number, index_t tokens, index_t layer) const;
  /// Adds measures, as a `softmax_sink` takes them, to the sums over all queries of the document.
  void add(std::size_t document, index_t layer, const softmax_request& what, index_t first,
           const std::vector<double>& measures);
  void add_losses(std::size_t document, std::span<const float> losses);

  /// Returns everything since `clear` as tensors of a shard, valid until the next call.
  std::vector<tensor_to_write> tensors() const;
  void clear();
  /// Loss of all documents so far: sum and tokens; `last_`: over the last fifth of the context.
  struct loss_sums {
    double sum = 0, tokens = 0, last_sum = 0, last_tokens = 0;
  };
  const loss_sums& loss() const { return loss_; }

 private:
  const capture_manifest* manifest_;
  const decoder_description* model_;
  bucket_edges buckets_;
  bool softmax_, losses_;
  index_t bins_;
  std::size_t batch_ = 0, documents_ = 0;  // before the batch; including it
  struct layer_sums {                      // documents are the first dimension, as in `softmax_sums`
    std::vector<double> count, first, distance, entropy;
  };
  std::vector<layer_sums> layers_;  // as manifest_->layers
  std::vector<double> loss_sum_, loss_count_;
  loss_sums loss_;
};

}  // namespace qkgeom
