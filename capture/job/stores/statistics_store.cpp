// SPDX-License-Identifier: MIT
#include "capture/job/stores/statistics_store.hpp"

#include <algorithm>
#include <cmath>

#include "qkgeom/core/random.hpp"

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
  documents_ += count;
  const std::size_t b = buckets_.count();
  const auto grow = [&](std::vector<double>& values, std::size_t per_document) {
    values.reserve((documents_ + more) * per_document);
    values.resize(documents_ * per_document);
  };
  for (std::size_t l = 0; softmax_ && l < layers_.size(); ++l) {
    const std::size_t cells = b * manifest_->layers[l].query_heads.size();
    grow(layers_[l].count, b);
    grow(layers_[l].first, cells * first_tokens.size());
    grow(layers_[l].distance, cells * bins_);
    grow(layers_[l].entropy, cells);
  }
  grow(loss_sum_, b);
  grow(loss_count_, b);
}

std::optional<softmax_request> statistics_store::measured(index_t number, index_t tokens, index_t layer) const {
  const index_t index = manifest_->find_layer(layer);
  if (!softmax_ || index < 0) return std::nullopt;
  const captured_layer_info& info = manifest_->layers[index];
  softmax_request what{.heads = info.query_heads, .window = info.window, .cap = model_->score_cap, .bins = bins_};
  what.scale = model_->score_scale.value_or(1 / std::sqrt(static_cast<double>(model_->head_dim)));
  if (model_->sinks) what.sinks = manifest_->extra.at("sinks").at(std::to_string(layer)).get<std::vector<float>>();
  const random_stream stream{manifest_->seed, static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(layer),
                             draw::softmax_query};
  const index_t wanted = manifest_->extra.at("softmax").at("queries").get<index_t>();
  for (index_t b = 0; b < buckets_.count() && buckets_.start(b) < tokens; ++b) {
    const index_t start = buckets_.start(b), size = std::min(buckets_.end(b), tokens) - start;
    const index_t queries = std::min(wanted, size);
    for (index_t i = 0; i < queries; ++i) {
      const index_t low = start + i * size / queries, stretch = start + (i + 1) * size / queries - low;
      what.positions.push_back(static_cast<std::int32_t>(low + static_cast<index_t>(stream.below(low, stretch))));
      what.weights.push_back(stretch);
    }
  }
  return what;
}

void statistics_store::add(std::size_t document, index_t layer, const softmax_request& what, index_t first,
                           const std::vector<double>& measures) {
  layer_sums& to = layers_[manifest_->find_layer(layer)];
  const index_t firsts = softmax_measures::firsts, width = softmax_measures(bins_).count(), b = buckets_.count();
  const auto heads = static_cast<index_t>(what.heads.size());
  const index_t queries = static_cast<index_t>(measures.size()) / (heads * width);
  const index_t place = static_cast<index_t>(batch_ + document);
  for (index_t i = 0; i < queries; ++i) {
    const index_t bucket = buckets_(what.positions[first + i]);
    const auto weight = static_cast<double>(what.weights[first + i]);
    to.count[place * b + bucket] += weight;
    for (index_t h = 0; h < heads; ++h) {
      const index_t cell = (place * heads + h) * b + bucket;
      const double* const from = measures.data() + (h * queries + i) * width;
      for (index_t f = 0; f < firsts; ++f) to.first[cell * firsts + f] += weight * from[f];
      to.entropy[cell] += weight * from[softmax_measures::entropy];
      for (index_t bin = 0; bin < bins_; ++bin)
        to.distance[cell * bins_ + bin] += weight * from[softmax_measures::distances + bin];
    }
  }
}

void statistics_store::add_losses(std::size_t document, std::span<const float> losses) {
  const std::size_t first = (batch_ + document) * buckets_.count();
  for (std::size_t t = 0; t < losses.size(); ++t) {
    const double x = static_cast<double>(losses[t]);
    require(std::isfinite(x), "the model computes a loss that is not finite at position ", t, " of a document");
    const std::size_t b = first + buckets_(static_cast<index_t>(t));
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
  const index_t documents = static_cast<index_t>(documents_), b = buckets_.count();
  for (std::size_t l = 0; softmax_ && l < layers_.size(); ++l) {
    const auto heads = static_cast<index_t>(manifest_->layers[l].query_heads.size());
    const std::string name = "layer." + std::to_string(manifest_->layers[l].layer) + ".attention";
    list.push_back(tensor_of(name + ".count", {documents, b}, layers_[l].count.data()));
    list.push_back(tensor_of(name + ".first", {documents, heads, b, first_tokens.size()}, layers_[l].first.data()));
    list.push_back(tensor_of(name + ".distance", {documents, heads, b, bins_}, layers_[l].distance.data()));
    list.push_back(tensor_of(name + ".entropy", {documents, heads, b}, layers_[l].entropy.data()));
  }
  if (losses_) {
    list.push_back(tensor_of("loss.sum", {documents, b}, loss_sum_.data()));
    list.push_back(tensor_of("loss.count", {documents, b}, loss_count_.data()));
  }
  return list;
}

void statistics_store::clear() {
  batch_ = documents_ = 0;
  for (layer_sums& l : layers_) l = {};
  loss_sum_.clear();
  loss_count_.clear();
}

}  // namespace qkgeom
