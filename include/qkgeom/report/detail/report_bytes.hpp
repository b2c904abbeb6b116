// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <type_traits>

#include "qkgeom/context/result_bytes.hpp"
#include "qkgeom/core/bytes.hpp"
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// The members of head reports for `bytes_of`.
template <class F>
void with_members(some<plasticity_heatmap> auto& x, const F& f) {
  auto& [cell, width, sum, weight, terms] = x;
  f(cell, width, sum, weight, terms);
}
template <class F>
void with_members(some<profile_bucket> auto& x, const F& f) {
  auto& [start, end, queries, used, pairs, plasticity, error, sum, weight, drawn, sampling_error, term_sum] = x;
  f(start, end, queries, used, pairs, plasticity, error, sum, weight, drawn, sampling_error, term_sum);
}
template <class F>
void with_members(some<plasticity_profile_result> auto& x, const F& f) {
  auto& [covariance, documents_weigh_same, documents, buckets, heatmap, model] = x;
  std::size_t kind = 0;  // of the names that a view of a constant may name; past them: "empirical"
  while (kind < all_covariance_kinds.size() && covariance != name_of(all_covariance_kinds[kind])) ++kind;
  f(kind, documents_weigh_same, documents, buckets, heatmap, model);
  if constexpr (!std::is_const_v<std::remove_reference_t<decltype(x)>>)
    covariance = kind < all_covariance_kinds.size() ? name_of(all_covariance_kinds[kind]) : "empirical";
}
template <class F>
void with_members(some<pca_result> auto& x, const F& f) {
  auto& [variance, r_q, r_k, components, total, q_linear, k_linear, q_component, k_component, of_class] = x;
  f(variance, r_q, r_k, components, total, q_linear, k_linear, q_component, k_component, of_class);
}
template <class F>
void with_members(some<rotation_result> auto& x, const F& f) {
  auto& [a, b, q, k, bias, share_a, share_b, share_plane, separation, content_b, residual, sd, sd_mean, scale, logits] =
      x;
  f(a, b, q, k, bias, share_a, share_b, share_plane, separation, content_b, residual, sd, sd_mean, scale, logits);
}
template <class F>
void with_members(some<geometry_replicate> auto& x, const F& f) {
  auto& [pca, rotation] = x;
  f(pca, rotation);
}
template <class F>
void with_members(some<document_blocks> auto& x, const F& f) {
  auto& [document, count, as_stored] = x;
  f(document, count, as_stored);
}
template <class F>
void with_members(some<geometry_replicates> auto& x, const F& f) {
  auto& [blocks, without] = x;
  f(blocks, without);
}
template <class F>
void with_members(some<head_report> auto& x, const F& f) {
  auto& [layer, q_head, k_head, rope, window, queries, keys, pca, rotation, geometry, alpha, beta, sigma2, r2, profiles,
         summaries, empirical, empirical_summary, empirical_unbiased] = x;
  f(layer, q_head, k_head, rope, window, queries, keys, pca, rotation, geometry, alpha, beta, sigma2, r2, profiles,
    summaries, empirical, empirical_summary, empirical_unbiased);
}

}  // namespace qkgeom
