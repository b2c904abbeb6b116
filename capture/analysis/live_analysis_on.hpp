// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "capture/job/live_analysis.hpp"
#include "qkgeom/context/context.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/report/captured_models.hpp"
#include "qkgeom/report/csv/document_csv.hpp"
#include "qkgeom/report/document_results.hpp"

namespace qkgeom {

/// The options of `analyse` that a live analysis stands for. Throws `error` on an unknown query model.
inline analysis_options analysis_options_of(const live_analysis_options& live) {
  analysis_options options{.covariances = {}, .empirical = false, .heatmap = live.heatmap};
  for (const auto& name : live.covariances) {
    const auto it = std::find_if(all_covariance_kinds.begin(), all_covariance_kinds.end(),
                                 [&](covariance_kind kind) { return name == name_of(kind); });
    require(it != all_covariance_kinds.end(),
            "--covariance must name query models (diagonal, full, joint, linear_drift), not '", name, "'");
    options.covariances.push_back(*it);
  }
  require(!options.covariances.empty(), "--covariance must name a query model");
  return options;
}

/// `live_analysis` on a context. Rows of T in memory S come from the capture's sink, or chunk by chunk from a forward
/// pass that has them there.
template <context Context, class T = float, memory_space S = memory_space::host>
class live_analysis_on final : public live_analysis {
 public:
  using tensor = tensor_view<const T, S>;
  using positions = vector_view<const std::int32_t, S>;

  /// `ctx` must outlive the analysis. The query buckets are those of the field "analyse" of `plan`.
  live_analysis_on(Context& ctx, const capture_manifest& plan, const live_analysis_options& live)
      : context_(&ctx),
        plan_(plan),
        options_(analysis_options_of(live)),
        skip_first_(plan.extra.value("skip_first", index_t{0})) {
    options_.rotation.score_scale = plan.score_scale.value_or(0);
    const index_t size = plan.extra["analyse"]["bucket_size"].template get<index_t>();
    buckets_ = captured_buckets{"uniform", size}.edges(plan.context_length);
    for (const auto& info : plan.layers) {
      layers_.push_back(
          {{info.layer, info.rope, info.query_heads, info.key_heads}, plan.key_of_query(info), info.window});
      results_.push_back(
          document_results({static_cast<index_t>(info.query_heads.size()), plan.model.head_dim, options_.covariances,
                            buckets_, plan.context_length, live.heatmap ? buckets_.end(0) - buckets_.start(0) : 0}));
    }
    if (!live.models_of.empty()) shared_models_.emplace(live.models_of, plan, buckets_, options_);
  }

  json settings() override {
    json fields{{"numbers", kept_numbers()}};
    if (shared_models_)
      fields["models_of"] = {{"documents", shared_models_->documents()},
                             {"fingerprint", shared_models_->fingerprint_of_all(*context_)}};
    return fields;
  }
  void add_documents(index_t count, index_t more) override {
    batch_ = results_[0].documents();
    for (auto& layer : results_) layer.add_documents(count, more);
  }
  batch_sinks::layer_sink sink() override {
    if constexpr (std::is_same_v<T, float> && S == memory_space::host)
      return [this](std::size_t document, index_t layer, tensor q, tensor k) { add(document, layer, q, k); };
    else
      return {};
  }
  std::vector<tensor_to_write> tensors() const override {
    std::vector<tensor_to_write> all;
    for (std::size_t l = 0; l < results_.size(); ++l)
      for (auto& t : results_[l].tensors(name_of_layer(l))) all.push_back(std::move(t));
    return all;
  }
  void clear() override {
    for (auto& layer : results_) layer.clear();
  }

  /// Adds a chunk of a document's queries in one layer, from token `first` on, with their positions; `document` counts
  /// within the batch. Ignores layers that are not captured.
  void add_queries(std::size_t document, index_t layer, index_t first, const tensor& q, const positions& position) {
    const index_t index = plan_.find_layer(layer), cut = std::max<index_t>(0, skip_first_ - first);
    if (index < 0 || cut >= q.rows) return;
    if (!current_) {
      const fixed_models* const models = shared_models_ ? &shared_models_->models(*context_, layer) : nullptr;
      current_.emplace(*context_, layers_[index], buckets_, plan_.context_length, options_, models);
    }
    current_->add_queries(without_first(q, cut), first + cut, {position.data + cut, position.size - cut},
                          where(document, layer));
  }
  /// Finishes the document that `add_queries` began, with the keys of all its tokens and their positions. `same` has an
  /// entry per row, all equal: it marks the rows as those of one document.
  void finish(std::size_t document, index_t layer, const tensor& k, const positions& position, const positions& same) {
    if (!current_) return;
    const index_t rest = k.rows - skip_first_;
    const auto reports = current_->finish(without_first(k, skip_first_), {position.data + skip_first_, rest},
                                          {same.data + skip_first_, rest}, where(document, layer));
    results_[plan_.find_layer(layer)].put(batch_ + static_cast<index_t>(document), reports);
    current_.reset();
  }

  void write_tables(const std::filesystem::path& folder) override {
    const auto source = capture::open(folder);
    const capture_manifest& manifest = source.manifest();
    document_tables tables(folder, options_.heatmap);
    model_report pooled = report_of({});
    const index_t block = document_block(static_cast<index_t>(manifest.documents->size()));
    auto results = results_;
    std::size_t next = 0;  // in the manifest's list
    for (index_t shard = 0; shard < source.n_shards(); ++shard) {
      const auto file = source.file(shard);
      const auto& documents = manifest.shards[shard].documents;
      for (std::size_t l = 0; l < results.size(); ++l)
        results[l].read(*file, name_of_layer(l), static_cast<index_t>(documents.size()));
      for (std::size_t d = 0; d < documents.size(); ++d) {
        const std::string& id = manifest.documents->at(next++).id;
        std::vector<head_report> heads;
        for (std::size_t l = 0; l < results.size(); ++l)
          for (auto& h : results[l].get(static_cast<index_t>(d), layers_[l], static_cast<std::int32_t>(documents[d])))
            heads.push_back(std::move(h));
        if (heads.empty()) continue;
        const auto document = report_of(std::move(heads));
        tables.add(documents[d], id, document);
        if (shared_models_) pool(pooled, document, block);
      }
    }
    tables.commit();
    if (shared_models_ && !pooled.heads.empty()) write_pooled(folder, pooled);
  }

 private:
  std::string name_of_layer(std::size_t l) const {
    return "layer." + std::to_string(layers_[l].names.layer) + ".analysis";
  }
  static std::string where(std::size_t document, index_t layer) {
    return "layer " + std::to_string(layer) + ", document " + std::to_string(document) + " of the batch";
  }
  static tensor without_first(const tensor& x, index_t rows) {
    return {x.data + rows * x.row_stride, x.rows - rows, x.heads, x.dim, x.row_stride, x.head_stride};
  }
  model_report report_of(std::vector<head_report> heads) const {
    return {plan_.model.name, plan_.context_length, buckets_, std::move(heads), 0};
  }

  /// Analyses a document in host memory.
  void add(std::size_t document, index_t layer, const tensor& q, const tensor& k) {
    for (auto i = static_cast<std::int32_t>(position_.size()); i < q.rows; ++i) position_.push_back(i);
    document_.resize(position_.size());
    const positions position{position_.data(), q.rows};
    add_queries(document, layer, 0, q, position);
    finish(document, layer, k, position, {document_.data(), q.rows});
  }

  /// Adds a document's profiles, which are under the same query models for all documents.
  static void pool(model_report& all, const model_report& document, index_t block) {
    const bool first = all.heads.empty();
    if (first) all = document;
    for (std::size_t h = 0; h < all.heads.size(); ++h)
      for (std::size_t m = 0; m < all.heads[h].profiles.size(); ++m) {
        auto profile = document.heads[h].profiles[m];
        fold_documents(profile, block);
        auto& to = all.heads[h].profiles[m];
        to = first ? std::move(profile) : merge(std::move(to), profile);
      }
  }
  /// Writes the tables of all documents together as `heads` does, PCA and rotation from the moments of `models_of`.
  void write_pooled(const std::filesystem::path& folder, model_report& pooled) {
    std::size_t next = 0;
    for (const auto& layer : layers_) {
      const auto stored = shared_models_->read(layer.names.layer);
      std::vector<head_report> heads(layer.names.query_heads.size());
      add_geometry(*context_, stored.moments, stored.by_block, plan_.context_length, options_, heads);
      for (auto& h : heads) {
        auto& to = pooled.heads[next++];
        to.pca = std::move(h.pca);
        to.rotation = std::move(h.rotation);
      }
    }
    for (auto& h : pooled.heads)
      for (std::size_t m = 0; m < h.profiles.size(); ++m)
        h.summaries[m] = summarize(h.profiles[m], plan_.context_length);
    write_head_tables(folder, pooled, options_.heatmap);
  }

  Context* context_;
  capture_manifest plan_;
  analysis_options options_;
  index_t skip_first_;
  bucket_edges buckets_{};
  std::vector<analysed_layer> layers_;     // one for each of plan_.layers
  std::vector<document_results> results_;  // one for each of plan_.layers
  index_t batch_ = 0;                      // documents of the shard before this batch
  std::optional<captured_models> shared_models_{};
  std::optional<document_analysis<Context, T, S>> current_{};
  std::vector<std::int32_t> position_, document_;
};

}  // namespace qkgeom
