// SPDX-License-Identifier: MIT
#include "qkgeom/report/fit_report.hpp"

#include "qkgeom/report/columns.hpp"

namespace qkgeom {

namespace {

/// Adds the medians of `of`, things that are tested for normality, under names that begin with `name`; `get` has them.
template <class Add, class Get>
void add_medians(const Add& add, const std::string& name, const std::string& of, const Get& get) {
  const auto one = [&](const char* what, const std::string& meaning, double normality_medians::*m) {
    add(name + what, meaning + of, [=](const auto& x) { return get(x).*m; });
  };
  one("_med_abs_skew", "median absolute skewness over ", &normality_medians::abs_skewness);
  one("_med_abs_kurt", "median absolute excess kurtosis over ", &normality_medians::abs_kurtosis);
  one("_med_ks", "median Kolmogorov-Smirnov distance from the normal distribution over ",
      &normality_medians::ks_distance);
  one("_med_ks_p", "median p of the Kolmogorov-Smirnov distance over ", &normality_medians::ks_p);
  one("_frac_ks_p_lt_alpha", "share with p below alpha, by default 0.01, of ", &normality_medians::share_below_alpha);
}

}  // namespace

const std::vector<fit_column>& fit_columns() {
  static const std::vector<fit_column> columns = [] {
    std::vector<fit_column> list{
        {"q_R2_pos", "R^2 of a coordinate's regression on position, mean over coordinates", &fit_checks_result::r2_pos},
        {"q_beta_norm", "norm of the slope beta of the regression on position, per token",
         &fit_checks_result::beta_norm},
        {"q_R2_scalar", "R^2 of log2(t + 1) on the query's projection along beta", &fit_checks_result::r2_scalar},
        {"q_mae_baseline", "mean absolute error of log2(t + 1) about its mean", &fit_checks_result::mae_baseline},
        {"q_mae_proj", "mean absolute error of log2(t + 1) by its regression on the projection",
         &fit_checks_result::mae_proj},
        {"q_mae_ratio", "q_mae_proj over q_mae_baseline", &fit_checks_result::mae_ratio},
        {"q_resid0_skew", "bias-corrected skewness of the residual on the drift axis",
         [](auto& f) { return f.residual.skewness; }},
        {"q_resid0_kurt", "bias-corrected excess kurtosis of the residual",
         [](auto& f) { return f.residual.kurtosis; }},
        {"q_resid0_ks", "Kolmogorov-Smirnov distance of the residual from the normal distribution",
         [](auto& f) { return f.residual.ks_distance; }},
        {"q_resid0_ks_p", "p of the residual's Kolmogorov-Smirnov distance", [](auto& f) { return f.residual.ks_p; }}};
    add_medians(
        [&](auto name, auto meaning, auto value) {
          list.push_back({name, meaning, value});
        },
        "q_noise", "coordinates 2..d of the rotated queries", [](const fit_checks_result& f) { return f.noise; });
    return list;
  }();
  return columns;
}

table fits_table(const std::vector<head_fit>& heads) {
  auto c = head_columns<3, head_fit>(std::identity());
  c.add("n_q_tokens", "number of queries", &head_fit::queries);
  c.of(&head_fit::fit).add_all(fit_columns());
  c.add("score_pairs", "score differences tested: up to 64 pairs of keys per query bucket of 8 queries or more",
        [](auto& h) { return h.scores.all.samples; });
  add_medians([&](auto name, auto meaning, auto value) { c.add(name, meaning, value); }, "score",
              "score differences q.(k_i - k_j), each over a bucket's queries",
              [](const head_fit& h) { return h.scores.all; });
  c.add("alpha_pos", "coordinate of the queries on the drift axis at position 0, by regression", &head_fit::alpha_pos);
  c.add("beta_pos", "slope of the coordinate in position, per token", &head_fit::beta_pos);
  c.add("beta_pos_error", "sandwich error of beta_pos over documents; empty below three",
        [](auto& h) { return h.drift.standard_error; });
  c.add("beta_pos_p", "p of no drift, by sign flips of documents; empty below two", [](auto& h) { return h.drift.p; });
  c.add("beta_pos_p_least", "smallest p that so many documents can give: 2^(1 - documents), 1/2000 from twelve on",
        [](auto& h) { return h.drift.least_p; });
  c.add("documents", "number of documents that have queries", [](auto& h) { return h.drift.documents; });
  c.add("sigma2_pos", "residual variance on the drift axis (n - 2)", &head_fit::sigma2_pos);
  c.add("r2_axis", "R^2 of the regression on the drift axis", &head_fit::r2_axis);
  return std::move(c).with_rows(heads);
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
    const head_report* head;
    std::size_t b;
    const profile_bucket* gap;
    std::string_view covariance;
  };
  auto c = head_columns<2, row>(&row::head);
  c.add("q_bucket", "query bucket, from 0", &row::b);
  add_stretch(c, "query bucket", &row::gap);
  c.of(&row::gap)
      .add("gap", "plasticity under the query model less the unbiased plasticity of the observed queries",
           &profile_bucket::plasticity)
      .add("standard_error", "standard error of gap over documents", &profile_bucket::standard_error)
      .add("pairs", "number of pairs of keys admitted", &profile_bucket::pairs)
      .add("queries", "number of queries in the bucket", &profile_bucket::queries);
  c.add("covariance", "query model", &row::covariance);
  return std::move(c).with_rows([&report](const auto& f) {
    for (const auto& h : report.heads) {
      if (!h.empirical) continue;
      const auto observed = unbiased(*h.empirical);
      for (const auto& p : h.profiles) {
        const auto gap = plasticity_gap(p, observed);
        for (std::size_t b = 0; b < gap.buckets.size(); ++b) f(row{&h, b, &gap.buckets[b], p.covariance});
      }
    }
  });
}

}  // namespace qkgeom
