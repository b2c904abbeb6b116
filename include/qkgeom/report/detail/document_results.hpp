// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/error.hpp"
#include "qkgeom/report/document_results.hpp"

namespace qkgeom {

namespace detail {

QKGEOM_INLINE std::size_t number_of_values(const std::vector<index_t>& shape) {
  index_t size = 1;
  for (const index_t s : shape) size *= s;
  return size;
}

}  // namespace detail

QKGEOM_INLINE std::vector<std::string> kept_numbers() {
  std::vector<std::string> names;
  for (const auto& n : rotation_numbers) names.push_back(n.name);
  names.insert(names.end(), {"q_linear_share", "k_linear_share"});
  return names;
}

QKGEOM_INLINE void document_results::add_documents(index_t count, index_t more) {
  documents_ += count;
  for (auto& a : arrays(documents_ + more)) a.values->reserve(detail::number_of_values(a.shape));
  for (auto& a : arrays(documents_)) a.values->resize(detail::number_of_values(a.shape), a.missing);
}

QKGEOM_INLINE void document_results::put(index_t document, const std::vector<head_report>& heads) {
  require(document >= 0 && document < documents_ && static_cast<index_t>(heads.size()) == shape_.heads,
          "document_results: no room for ", heads.size(), " heads of document ", document);
  const std::size_t b = shape_.buckets.count(), c = shape_.covariances.size(), w = shape_.cells();
  for (const auto& h : heads) {
    require(h.profiles.size() == c, "document_results: ", h.profiles.size(), " profiles per head for ", c,
            " query models");
    for (const auto& p : h.profiles)
      require(p.buckets.size() == b, "document_results: a profile of ", p.buckets.size(), " buckets for ", b);
  }
  tokens_[document] = static_cast<double>(heads[0].queries);
  double* const queries = queries_.data() + document * b;
  double* const pairs = pairs_.data() + document * b;
  for (std::size_t i = 0; i < b; ++i) {
    queries[i] = static_cast<double>(heads[0].profiles[0].buckets[i].queries);
    pairs[i] = static_cast<double>(heads[0].profiles[0].buckets[i].pairs);
  }
  for (std::size_t h = 0; h < heads.size(); ++h) {
    const std::size_t at = document * heads.size() + h;
    put_geometry(at, heads[h]);
    for (std::size_t m = 0; m < c; ++m)
      for (std::size_t i = 0; i < b; ++i) {
        const auto& found = heads[h].profiles[m].buckets[i].document_sum;
        require(found.size() == 1, "document_results: a profile of ", found.size(), " documents");
        sum_[(at * c + m) * b + i] = found[0];
      }
    if (w > 0) put_heatmap(heads[h].profiles[0].heatmap, at, document);
  }
}

QKGEOM_INLINE std::vector<head_report> document_results::get(index_t document, const analysed_layer& layer,
                                                             std::int32_t id) const {
  const std::size_t b = shape_.buckets.count(), c = shape_.covariances.size();
  if (tokens_[document] == 0) return {};
  auto heads = named_heads(layer.names, layer.key_of_query, layer.window);
  for (auto& head : heads) head.queries = head.keys = static_cast<index_t>(tokens_[document]);
  for (std::size_t h = 0; h < heads.size(); ++h) {
    const std::size_t at = document * heads.size() + h;
    get_geometry(at, heads[h]);
    for (std::size_t m = 0; m < c; ++m) {
      heads[h].profiles.push_back(profile(document, &sum_[(at * c + m) * b], shape_.covariances[m], id));
      if (m == 0) get_heatmap(document, at, heads[h].profiles[0].heatmap);
      heads[h].summaries.push_back(summarize(heads[h].profiles[m], shape_.context_length));
    }
  }
  return heads;
}

QKGEOM_INLINE std::vector<tensor_to_write> document_results::tensors(const std::string& name) const {
  std::vector<tensor_to_write> list;
  for (const auto& a : const_cast<document_results*>(this)->arrays(documents_))
    list.push_back(tensor_of(name + a.name, a.shape, a.values->data()));
  return list;
}

QKGEOM_INLINE void document_results::read(const safetensors_file& file, const std::string& name, index_t documents) {
  documents_ = documents;
  for (auto& a : arrays(documents_)) {
    const auto& tensor = file.at(name + a.name);
    require(tensor.shape == a.shape, file.path().string(), ": tensor ", name, a.name, " must have shape ",
            shape_text(a.shape), " by the manifest, not ", shape_text(tensor.shape));
    const auto values = file.values<double>(tensor);
    a.values->assign(values.begin(), values.end());
  }
  for (const auto* counts : {&tokens_, &queries_, &pairs_})
    for (const double x : *counts)
      require(x >= 0 && x < 9e15, file.path().string(), ": ", name, ".tokens, .queries and .pairs must hold counts");
}

QKGEOM_INLINE void document_results::clear() {
  documents_ = 0;
  for (auto& a : arrays(documents_)) a.values->clear();
}

QKGEOM_INLINE std::vector<document_results::array> document_results::arrays(index_t documents) {
  const index_t e = documents, h = shape_.heads, b = shape_.buckets.count(), w = shape_.cells();
  const auto c = static_cast<index_t>(shape_.covariances.size());
  std::vector<array> list{{".numbers", {e, h, kept_}, &numbers_, none},
                          {".components", {e, h, shape_.dim, 3}, &components_, none},
                          {".tokens", {e}, &tokens_, 0},
                          {".queries", {e, b}, &queries_, 0},
                          {".pairs", {e, b}, &pairs_, 0},
                          {".sum", {e, h, c, b}, &sum_, 0}};
  if (w > 0) {
    list.push_back({".heatmap_pairs", {e, w, w}, &heatmap_pairs_, 0});
    list.push_back({".heatmap_sum", {e, h, w, w}, &heatmap_sum_, 0});
  }
  return list;
}

QKGEOM_INLINE void document_results::put_geometry(std::size_t at, const head_report& head) {
  double* number = numbers_.data() + at * kept_;
  for (const auto& n : rotation_numbers) *number++ = n.of(head.rotation);
  for (const double share : {head.pca.q_linear_share, head.pca.k_linear_share}) *number++ = share;
  double* component = components_.data() + at * shape_.dim * 3;
  for (std::size_t j = 0; j < head.pca.r_q.size(); ++j)
    for (const double x : {head.pca.r_q[j], head.pca.r_k[j], head.pca.explained_variance[j]}) *component++ = x;
}

QKGEOM_INLINE void document_results::get_geometry(std::size_t at, head_report& head) const {
  const double* number = numbers_.data() + at * kept_;
  for (const auto& n : rotation_numbers) n.in(head.rotation) = *number++;
  for (double* const share : {&head.pca.q_linear_share, &head.pca.k_linear_share}) *share = *number++;
  const double* component = components_.data() + at * shape_.dim * 3;
  for (index_t j = 0; j < shape_.dim; ++j)
    for (auto* to : {&head.pca.r_q, &head.pca.r_k, &head.pca.explained_variance}) to->push_back(*component++);
  head.pca.head_class = classify(head.pca.r_q[0], head.pca.r_k[0]);
}

QKGEOM_INLINE void document_results::put_heatmap(const plasticity_heatmap& map, std::size_t at, index_t document) {
  const std::size_t w = shape_.cells();
  require(map.cell == shape_.heatmap_cell && map.width <= shape_.cells(), "document_results: a heatmap of ", map.width,
          " cells of ", map.cell, " tokens");
  for (index_t i = 0; i < map.width; ++i)
    for (index_t j = 0; j < map.width; ++j) {
      const index_t from = i * map.width + j, to = i * w + j;
      heatmap_sum_[at * w * w + to] = map.sum[from];
      heatmap_pairs_[document * w * w + to] = map.weight[from];
    }
}

QKGEOM_INLINE void document_results::get_heatmap(index_t document, std::size_t at, plasticity_heatmap& map) const {
  map.cell = shape_.heatmap_cell;
  map.width = shape_.cells();
  const auto cells = static_cast<std::ptrdiff_t>(map.width * map.width);
  const auto sum = heatmap_sum_.begin() + static_cast<std::ptrdiff_t>(at) * cells;
  const auto pairs = heatmap_pairs_.begin() + document * cells;
  map.sum.assign(sum, sum + cells);
  map.weight.assign(pairs, pairs + cells);
}

QKGEOM_INLINE plasticity_profile_result document_results::profile(index_t document, const double* sum,
                                                                  covariance_kind covariance, std::int32_t id) const {
  plasticity_profile_result p{name_of(covariance), false, {id}, {}, {}};
  for (index_t b = 0; b < shape_.buckets.count(); ++b) {
    const index_t at = document * shape_.buckets.count() + b;
    profile_bucket out;
    out.start = shape_.buckets.start(b);
    out.end = shape_.buckets.end(b);
    out.queries = static_cast<index_t>(queries_[at]);
    out.pairs = static_cast<std::int64_t>(pairs_[at]);
    out.document_sum = {sum[b]};
    out.document_weight = {pairs_[at]};
    if (out.queries >= 2) set_mean_and_error(out);
    p.buckets.push_back(std::move(out));
  }
  return p;
}

}  // namespace qkgeom
