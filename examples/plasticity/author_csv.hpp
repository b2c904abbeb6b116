// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <vector>

#include "qkgeom/io/csv.hpp"
#include "examples/plasticity/author_analysis.hpp"

namespace qkgeom {

/// The three tables of attention-plasticity under its file names and columns, so that programs that read those work on
/// ours. Null is an empty field; each file appears whole.

/// head_metrics.csv: a row per head.
inline void write_head_metrics_csv(const std::filesystem::path& path, const std::vector<author_head>& heads) {
  csv_writer csv(path,
                 csv_columns("layer,q_head,k_head,n_q_tokens,n_k_tokens,d_model,q_R2_pos,q_beta_norm,q_R2_scalar,"
                             "q_mae_baseline,q_mae_proj,q_mae_ratio,q_resid0_skew,q_resid0_kurt,q_resid0_ks_p,"
                             "q_noise_med_abs_skew,q_noise_med_abs_kurt,q_noise_med_ks_p,q_noise_frac_ks_p_lt_alpha,"
                             "ap_overall"));
  for (const auto& h : heads) {
    const auto& f = h.fit;
    csv.row(h.layer, h.q_head, h.k_head, h.queries, h.keys, h.dim, f.r2_pos, f.beta_norm, f.r2_scalar, f.mae_baseline,
            f.mae_proj, f.mae_ratio(), f.residual.skewness, f.residual.kurtosis, f.residual.ks_p, f.noise.abs_skewness,
            f.noise.abs_kurtosis, f.noise.ks_p, f.noise.share_below_alpha, h.overall.value);
  }
  csv.commit();
}

/// head_bucket_plasticity.csv: a row per head, query bucket and earlier key bucket. `first_bucket` is the number of the
/// grid's first bucket.
inline void write_head_bucket_plasticity_csv(const std::filesystem::path& path, const std::vector<author_head>& heads,
                                             index_t first_bucket = 0) {
  csv_writer csv(path, {"layer", "q_head", "k_head", "q_bucket", "k_bucket", "ap_bucket"});
  for (const auto& h : heads)
    for (const auto& c : h.cells)
      csv.row(h.layer, h.q_head, h.k_head, first_bucket + c.q_bucket, first_bucket + c.k_bucket, c.plasticity);
  csv.commit();
}

/// head_component_weights.csv: a row per head and coordinate.
inline void write_head_component_weights_csv(const std::filesystem::path& path, const std::vector<author_head>& heads) {
  csv_writer csv(path, {"layer", "q_head", "k_head", "component", "component_r2", "component_weight"});
  for (const auto& h : heads)
    for (std::size_t c = 0; c < h.weights.r2.size(); ++c)
      csv.row(h.layer, h.q_head, h.k_head, c, h.weights.r2[c], h.weights.weight[c]);
  csv.commit();
}

}  // namespace qkgeom
