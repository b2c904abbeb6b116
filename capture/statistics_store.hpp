// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <vector>

#include "capture/attention_statistics.hpp"
#include "capture/description.hpp"
#include "qkgeom/io/capture_manifest.hpp"
#include "qkgeom/io/safetensors_write.hpp"

namespace qkgeom {

/// What the softmax of the captured heads gives, and the losses, of each document of one shard.
class statistics_store {
 public:
  /// `manifest` and `model` must live longer.
  statistics_store(const capture_manifest& manifest, const decoder_description& model, bucket_edges buckets,
                   bool softmax, bool losses);

  /// Makes room for more documents, empty ones too, before anything of them is added.
  void add_documents(index_t count);
  /// Measures the attention of one layer of the shard's document number `document`: q (tokens, query heads, d), k
  /// (tokens, key heads, d) as they meet.
  void add(thread_pool& pool, index_t document, index_t layer, tensor_view<const float> q, tensor_view<const float> k);
  void add_losses(index_t document, std::span<const float> losses);

  bool wants_softmax() const { return softmax_; }
  bool wants_losses() const { return losses_; }
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
  index_t documents_ = 0;
  std::vector<attention_sums> layers_;  // as manifest_->layers, documents in front of the other dimensions
  std::vector<double> loss_sum_, loss_count_;
  loss_sums loss_;
};

}  // namespace qkgeom
