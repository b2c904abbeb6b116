// SPDX-License-Identifier: MIT
#include "capture/job/stores/statistics_store.hpp"

#include <algorithm>
#include <cmath>

namespace qkgeom {

statistics_store::statistics_store(const capture_manifest& manifest, const decoder_description& model,
                                   bucket_edges buckets, bool softmax, bool losses)
    : manifest_(&manifest),
      model_(&model),
      buckets_(std::move(buckets)),
      softmax_(softmax),
      losses_(losses),
      bins_(distance_bins(manifest.context_length)),
      layers_(manifest.layers.size()) {}

void statistics_store::add_documents(index_t count, index_t more) {
  batch_ = documents_;
  documents_ += static_cast<std::size_t>(count);
  const auto b = static_cast<std::size_t>(buckets_.count());
  const auto grow = [&](std::vector<double>& values, std::size_t of_document) {
    values.reserve((documents_ + static_cast<std::size_t>(more)) * of_document);
    values.resize(documents_ * of_document);
  };
  for (std::size_t l = 0; softmax_ && l < layers_.size(); ++l) {
    const std::size_t cells = b * manifest_->layers[l].query_heads.size();
    grow(layers_[l].count, b);
    grow(layers_[l].first, cells * first_tokens.size());
    grow(layers_[l].distance, cells * static_cast<std::size_t>(bins_));
    grow(layers_[l].entropy, cells);
  }
  grow(loss_sum_, b);
  grow(loss_count_, b);
}

std::optional<measured_heads> statistics_store::measured(index_t layer) const {
  const index_t at = manifest_->find_layer(layer);
  if (!softmax_ || at < 0) return std::nullopt;
  const captured_layer_info& info = manifest_->layers[at];
  const double scale = model_->score_scale.value_or(1 / std::sqrt(static_cast<double>(model_->head_dim)));
  return measured_heads{info.query_heads, buckets_, {.window = info.window, .scale = scale, .bins = bins_}};
}

void statistics_store::add(std::size_t document, index_t layer, const attention_sums& found) {
  attention_sums& to = layers_[manifest_->find_layer(layer)];
  const auto put = [&](const std::vector<double>& from, std::vector<double>& all) {
    std::copy(from.begin(), from.end(), all.begin() + static_cast<std::ptrdiff_t>((batch_ + document) * from.size()));
  };
  put(found.count, to.count);
  put(found.first, to.first);
  put(found.distance, to.distance);
  put(found.entropy, to.entropy);
}

void statistics_store::add_losses(std::size_t document, std::span<const float> losses) {
  const auto first = (batch_ + document) * static_cast<std::size_t>(buckets_.count());
  for (std::size_t t = 0; t < losses.size(); ++t) {
    const double x = static_cast<double>(losses[t]);
    require(std::isfinite(x), "the model computes a loss that is not finite at position ", t, " of a document");
    const auto b = first + static_cast<std::size_t>(buckets_(static_cast<index_t>(t)));
    loss_sum_[b] += x;
    loss_count_[b] += 1;
    loss_.sum += x;
    loss_.tokens += 1;
    if (5 * static_cast<index_t>(t) < 4 * manifest_->context_length) continue;
    loss_.last_sum += x;
    loss_.last_tokens += 1;
  }
}

std::vector<tensor_to_write> statistics_store::tensors() const {
  std::vector<tensor_to_write> list;
  const index_t e = static_cast<index_t>(documents_), b = buckets_.count(),
                firsts = static_cast<index_t>(first_tokens.size());
  for (std::size_t l = 0; softmax_ && l < layers_.size(); ++l) {
    const auto heads = static_cast<index_t>(manifest_->layers[l].query_heads.size());
    const std::string name = "layer." + std::to_string(manifest_->layers[l].layer) + ".attention";
    list.push_back(tensor_of(name + ".count", {e, b}, layers_[l].count.data()));
    list.push_back(tensor_of(name + ".first", {e, heads, b, firsts}, layers_[l].first.data()));
    list.push_back(tensor_of(name + ".distance", {e, heads, b, bins_}, layers_[l].distance.data()));
    list.push_back(tensor_of(name + ".entropy", {e, heads, b}, layers_[l].entropy.data()));
  }
  if (losses_) {
    list.push_back(tensor_of("loss.sum", {e, b}, loss_sum_.data()));
    list.push_back(tensor_of("loss.count", {e, b}, loss_count_.data()));
  }
  return list;
}

void statistics_store::clear() {
  batch_ = documents_ = 0;
  for (attention_sums& l : layers_) l = {};
  loss_sum_.clear();
  loss_count_.clear();
}

}  // namespace qkgeom
