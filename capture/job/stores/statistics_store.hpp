// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "capture/forward/attention_statistics.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/safetensors_write.hpp"

namespace qkgeom {

/// What the softmax of the captured heads gives, and the losses, of each document of one shard.
class statistics_store {
 public:
  /// `manifest` and `model` must live longer.
  statistics_store(const capture_manifest& manifest, const decoder_description& model, bucket_edges buckets,
                   bool softmax, bool losses);

  /// Makes room for a batch of documents, empty ones too, before anything of them is added, by their numbers in it.
  /// `more` will follow before `clear`.
  void add_documents(index_t count, index_t more);

  /// What is kept of a layer's softmax; none: nothing.
  std::optional<measured_heads> measured(index_t layer) const;
  void add(std::size_t document, index_t layer, const attention_sums& found);
  void add_losses(std::size_t document, std::span<const float> losses);

  /// Everything so far as tensors of a shard, valid until the next call.
  std::vector<tensor_to_write> tensors() const;
  void clear();
  /// Loss of every document so far: sum and tokens, and those of the last fifth of the context.
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
  std::size_t batch_ = 0, documents_ = 0;  // before the batch, in all
  std::vector<attention_sums> layers_;     // as manifest_->layers, documents in front of the other dimensions
  std::vector<double> loss_sum_, loss_count_;
  loss_sums loss_;
};

}  // namespace qkgeom
