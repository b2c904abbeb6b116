// SPDX-License-Identifier: MIT
#include "capture/job/stores/moment_store.hpp"

#include <algorithm>
#include <numeric>

namespace qkgeom {
namespace {

/// Views the listed heads in place if they are consecutive, else copies them.
tensor_view<const float> chosen_heads(const tensor_view<const float>& x, const std::vector<index_t>& heads,
                                      std::vector<float>& copy) {
  const auto n = static_cast<index_t>(heads.size());
  if (heads.back() - heads.front() == n - 1)
    return {x.data + heads.front() * x.head_stride, x.rows, n, x.dim, x.row_stride, x.head_stride};
  copy.resize(x.rows * n * x.dim);
  for (index_t t = 0; t < x.rows; ++t)
    for (index_t h = 0; h < n; ++h) std::copy_n(x.head(heads[h]).row(t), x.dim, copy.data() + (t * n + h) * x.dim);
  return packed_tensor(static_cast<const float*>(copy.data()), x.rows, n, x.dim);
}

}  // namespace

moment_store::moment_store(const capture_manifest& manifest, bucket_edges buckets, moment_function moments,
                           index_t skip_first)
    : manifest_(&manifest), buckets_(std::move(buckets)), moments_(std::move(moments)), skip_first_(skip_first) {
  clear();
}

void moment_store::clear() {
  layers_.clear();
  const index_t d = manifest_->model.head_dim;
  const auto side = [&](std::size_t heads, scatter_kind kind) {
    const side_moments zero{row_moments::zero(d, scatter_kind::full),
                            std::vector<row_moments>(buckets_.count(), row_moments::zero(d, kind))};
    return std::vector<side_moments>(heads, zero);
  };
  for (const auto& info : manifest_->layers) {
    const std::size_t keys = info.key_heads.size();
    layers_.push_back({{buckets_, side(info.query_heads.size(), scatter_kind::full), side(keys, scatter_kind::diagonal),
                        manifest_->key_of_query(info)},
                       std::vector<std::vector<double>>(keys, std::vector<double>(d * d)),
                       0});
  }
}

void moment_store::take_queries(std::size_t layer, std::size_t bucket, const std::vector<row_moments>& heads) {
  for (std::size_t h = 0; h < heads.size(); ++h) merge(layers_[layer].moments.q[h].bucket[bucket], heads[h]);
}

void moment_store::take_keys(std::size_t layer, std::size_t bucket, const std::vector<row_moments>& heads) {
  if (document_.empty())
    document_.assign(heads.size(), row_moments::zero(manifest_->model.head_dim, scatter_kind::full));
  for (std::size_t h = 0; h < heads.size(); ++h) {
    merge(layers_[layer].moments.k[h].bucket[bucket], heads[h]);
    merge(document_[h], heads[h]);
  }
}

void moment_store::end_document(index_t layer) {
  const index_t index = manifest_->find_layer(layer);
  if (index < 0 || document_.empty()) return;
  token_moments& sums = layers_[index];
  const double n = static_cast<double>(document_[0].count);
  for (std::size_t h = 0; h < document_.size(); ++h) {
    merge(sums.moments.k[h].total, document_[h]);
    sums.k_differences[h] = dense::sum(std::move(sums.k_differences[h]), dense::scaled(document_[h].xx, n));
  }
  sums.k_pairs += 0.5 * n * (n - 1);
  document_.clear();
}

void moment_store::add(index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
  add_rows(layer, 0, q, k,
           [&](const char* side, tensor_view<const float> rows, const std::vector<index_t>& heads, index_t position) {
             position_.resize(rows.rows);
             std::iota(position_.begin(), position_.end(), static_cast<std::int32_t>(position));
             std::vector<row_moments> totals;
             for (auto& found : moments_(side, chosen_heads(rows, heads, packed_), {position_.data(), rows.rows}))
               totals.push_back(std::move(found.total));
             return totals;
           });
  end_document(layer);
}

std::string moment_store::write(const std::filesystem::path& path, const capture_manifest& manifest) const {
  return write_moments_file(path, manifest, layers_);
}

void moment_store::read(const std::filesystem::path& path) {
  const moments_file file(std::make_shared<const safetensors_file>(path), *manifest_);
  require(file.edges() == buckets_, path.string(), ": its bucket edges are not those of this capture");
  for (std::size_t l = 0; l < layers_.size(); ++l) layers_[l] = file.read(manifest_->layers[l].layer);
}

}  // namespace qkgeom
