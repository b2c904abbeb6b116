// SPDX-License-Identifier: MIT
#include "qkgeom/report/fit_report.hpp"

namespace qkgeom {

void write_fits_csv(const std::filesystem::path& path, const std::vector<head_fit>& heads) {
  csv_writer csv(
      path, csv_columns("layer,q_head,k_head,n_q_tokens,q_R2_pos,q_beta_norm,q_R2_scalar,q_mae_baseline,q_mae_proj,"
                        "q_mae_ratio,q_resid0_skew,q_resid0_kurt,q_resid0_ks,q_resid0_ks_p,q_noise_med_abs_skew,"
                        "q_noise_med_abs_kurt,q_noise_med_ks,q_noise_med_ks_p,q_noise_frac_ks_p_lt_alpha,score_pairs,"
                        "score_med_abs_skew,score_med_abs_kurt,score_med_ks,score_med_ks_p,score_frac_ks_p_lt_alpha,"
                        "alpha_pos,beta_pos,beta_pos_error,beta_pos_p,beta_pos_p_least,documents,sigma2_pos,r2_axis"));
  const auto add = [&](const normality_medians& m) {
    csv.add(m.abs_skewness).add(m.abs_kurtosis).add(m.ks_distance).add(m.ks_p).add(m.share_below_alpha);
  };
  for (const auto& h : heads) {
    const auto& f = h.fit;
    csv.add(h.layer).add(h.q_head).add(h.k_head).add(h.queries);
    csv.add(f.r2_pos).add(f.beta_norm).add(f.r2_scalar).add(f.mae_baseline).add(f.mae_proj).add(f.mae_ratio());
    csv.add(f.residual.skewness).add(f.residual.kurtosis).add(f.residual.ks_distance).add(f.residual.ks_p);
    add(f.noise);
    csv.add(h.scores.all.samples);
    add(h.scores.all);
    csv.add(h.alpha_pos)
        .add(h.beta_pos)
        .add(h.drift.standard_error)
        .add(h.drift.p)
        .add(h.drift.least_p)
        .add(h.drift.documents);
    csv.add(h.sigma2_pos).add(h.r2_axis);
    csv.end_row();
  }
  csv.commit();
}

plasticity_profile_result plasticity_gap(const plasticity_profile_result& gaussian,
                                         const plasticity_profile_result& empirical_unbiased) {
  require(gaussian.buckets.size() == empirical_unbiased.buckets.size() &&
              gaussian.documents == empirical_unbiased.documents &&
              gaussian.documents_weigh_same == empirical_unbiased.documents_weigh_same,
          "plasticity_gap needs two profiles of the same buckets, examples and pairs");
  plasticity_profile_result gap;
  gap.covariance = gaussian.covariance;
  gap.documents_weigh_same = gaussian.documents_weigh_same;
  gap.documents = gaussian.documents;
  for (std::size_t b = 0; b < gaussian.buckets.size(); ++b) {
    const auto &mine = gaussian.buckets[b], &other = empirical_unbiased.buckets[b];
    profile_bucket out;
    out.start = mine.start;
    out.end = mine.end;
    out.queries = mine.queries;
    out.pairs = mine.pairs;
    out.document_sum = dense::difference(mine.document_sum, other.document_sum);
    out.document_weight = mine.document_weight;
    if (!std::isnan(mine.plasticity) && !std::isnan(other.plasticity)) {
      require(mine.document_weight == other.document_weight, "plasticity_gap needs two profiles of the same pairs");
      set_mean_and_error(out);
    }
    gap.buckets.push_back(std::move(out));
  }
  return gap;
}

void write_gaps_csv(const std::filesystem::path& path, const model_report& report) {
  csv_writer csv(
      path, {"layer", "q_head", "q_bucket", "start", "end", "gap", "standard_error", "pairs", "queries", "covariance"});
  for (const auto& h : report.heads) {
    if (!h.empirical) continue;
    const auto observed = unbiased(*h.empirical);
    for (const auto& p : h.profiles) {
      const auto gap = plasticity_gap(p, observed);
      for (std::size_t b = 0; b < gap.buckets.size(); ++b) {
        const auto& v = gap.buckets[b];
        csv.row(h.layer, h.q_head, b, v.start, v.end, v.plasticity, v.standard_error, v.pairs, v.queries, p.covariance);
      }
    }
  }
  csv.commit();
}

}  // namespace qkgeom
