// SPDX-License-Identifier: MIT
#include "qkgeom/report/fit_report.hpp"

namespace qkgeom {

table fits_table(const std::vector<head_fit>& heads) {
  table_columns<head_fit> c;
  c.add("layer", "number of the layer", &head_fit::layer);
  c.add("q_head", "number of the query head", &head_fit::q_head);
  c.add("k_head", "number of the key head that it reads", &head_fit::k_head);
  c.add("n_q_tokens", "queries", &head_fit::queries);
  c.add("q_R2_pos", "mean over coordinates of the R^2 of their regression on position",
        [](auto& h) { return h.fit.r2_pos; });
  c.add("q_beta_norm", "norm of the slope beta of that regression, per token", [](auto& h) { return h.fit.beta_norm; });
  c.add("q_R2_scalar", "R^2 of log2(t + 1) on the query's projection along beta",
        [](auto& h) { return h.fit.r2_scalar; });
  c.add("q_mae_baseline", "mean absolute error of log2(t + 1) about its mean",
        [](auto& h) { return h.fit.mae_baseline; });
  c.add("q_mae_proj", "mean absolute error of that regression", [](auto& h) { return h.fit.mae_proj; });
  c.add("q_mae_ratio", "its ratio to the baseline", [](auto& h) { return h.fit.mae_ratio(); });
  c.add("q_resid0_skew", "residual on the drift axis: bias-corrected skewness",
        [](auto& h) { return h.fit.residual.skewness; });
  c.add("q_resid0_kurt", "its bias-corrected excess kurtosis", [](auto& h) { return h.fit.residual.kurtosis; });
  c.add("q_resid0_ks", "its Kolmogorov-Smirnov distance from the normal distribution",
        [](auto& h) { return h.fit.residual.ks_distance; });
  c.add("q_resid0_ks_p", "the p of that distance", [](auto& h) { return h.fit.residual.ks_p; });
  const auto add_medians = [&](const std::string& name, const std::string& of, const auto& medians) {
    const auto add = [&](const char* what, const std::string& meaning, double normality_medians::*m) {
      c.add(name + what, meaning + of, [=](auto& h) { return medians(h).*m; });
    };
    add("_med_abs_skew", "median absolute skewness of ", &normality_medians::abs_skewness);
    add("_med_abs_kurt", "median absolute excess kurtosis of ", &normality_medians::abs_kurtosis);
    add("_med_ks", "median Kolmogorov-Smirnov distance of ", &normality_medians::ks_distance);
    add("_med_ks_p", "median p of that distance of ", &normality_medians::ks_p);
    add("_frac_ks_p_lt_alpha", "share with p below 0.01 of ", &normality_medians::share_below_alpha);
  };
  add_medians("q_noise", "coordinates 2..d of the rotated queries", [](auto& h) { return h.fit.noise; });
  c.add("score_pairs", "score differences tested: up to 64 pairs of keys per query bucket of 8 queries or more",
        [](auto& h) { return h.scores.all.samples; });
  add_medians("score", "q.(k_i - k_j) over a bucket's queries", [](auto& h) { return h.scores.all; });
  c.add("alpha_pos", "the queries' coordinate on the drift axis at position 0, by regression", &head_fit::alpha_pos);
  c.add("beta_pos", "its slope, per token", &head_fit::beta_pos);
  c.add("beta_pos_error", "sandwich over documents, empty below three", [](auto& h) { return h.drift.standard_error; });
  c.add("beta_pos_p", "p of no drift, by sign flips of documents, empty below two", [](auto& h) { return h.drift.p; });
  c.add("beta_pos_p_least", "the smallest p that so many documents can give", [](auto& h) { return h.drift.least_p; });
  c.add("documents", "documents that have queries", [](auto& h) { return h.drift.documents; });
  c.add("sigma2_pos", "residual variance on the drift axis (n - 2)", &head_fit::sigma2_pos);
  c.add("r2_axis", "R^2 of that regression", &head_fit::r2_axis);
  return std::move(c).with_rows([&heads](const auto& f) {
    for (const auto& h : heads) f(h);
  });
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

table gaps_table(const model_report& report) {
  struct row {
    const head_report& head;
    std::size_t b;
    const profile_bucket& gap;
    std::string_view covariance;
  };
  table_columns<row> c;
  c.add("layer", "number of the layer", [](auto& r) { return r.head.layer; });
  c.add("q_head", "number of the query head", [](auto& r) { return r.head.q_head; });
  c.add("q_bucket", "query bucket, from 0", &row::b);
  c.add("start", "its first token", [](auto& r) { return r.gap.start; });
  c.add("end", "one past its last token", [](auto& r) { return r.gap.end; });
  c.add("gap", "plasticity under the query model minus that of the observed queries (unbiased)",
        [](auto& r) { return r.gap.plasticity; });
  c.add("standard_error", "of the difference", [](auto& r) { return r.gap.standard_error; });
  c.add("pairs", "pairs of keys admitted", [](auto& r) { return r.gap.pairs; });
  c.add("queries", "queries in the bucket", [](auto& r) { return r.gap.queries; });
  c.add("covariance", "query model", &row::covariance);
  return std::move(c).with_rows([&report](const auto& f) {
    for (const auto& h : report.heads) {
      if (!h.empirical) continue;
      const auto observed = unbiased(*h.empirical);
      for (const auto& p : h.profiles) {
        const auto gap = plasticity_gap(p, observed);
        for (std::size_t b = 0; b < gap.buckets.size(); ++b) f(row{h, b, gap.buckets[b], p.covariance});
      }
    }
  });
}

}  // namespace qkgeom
