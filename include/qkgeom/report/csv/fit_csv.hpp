// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/model/drift_significance.hpp"
#include "qkgeom/model/fit_checks.hpp"
#include "qkgeom/plasticity/score_checks.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// Options of the checks of a layer's query models.
struct fit_options {
  fit_check_options checks{};
  score_check_options scores{};
  drift_test_options drift{};
  index_t most_rows = 0;  ///< more queries or keys of a head are thinned to so many; 0: all are used
};

/// How well the query model fits one query head.
struct head_fit {
  index_t layer = 0, q_head = 0, k_head = 0, queries = 0;
  double alpha_pos = 0, beta_pos = 0, sigma2_pos = 0, r2_axis = 0;  ///< regression of coordinate 1 on position
  drift_test_result drift;
  fit_checks_result fit;
  score_checks_result scores;
};

/// Fit checks of every query head of a layer over these query buckets. Needs rows in host memory.
template <context Context, class T>
std::vector<head_fit> fit_layer(Context& ctx, const layer_view<T>& all, const layer_names& names,
                                const bucket_edges& buckets, const fit_options& options = {});

/// fits.csv: a row per head; the fit columns under the names of the author's tool, then ours.
inline void write_fits_csv(const std::filesystem::path& path, const std::vector<head_fit>& heads);

/// Gaussian minus empirical plasticity by query bucket, with the jackknife error of the difference over documents; NaN
/// where either is. Throws `error` if the two are of different buckets, documents or pairs.
inline plasticity_profile_result plasticity_gap(const plasticity_profile_result& gaussian,
                                                const plasticity_profile_result& empirical_unbiased);

/// gaps.csv: `plasticity_gap`, a row per head, query bucket and query model of the report.
inline void write_gaps_csv(const std::filesystem::path& path, const model_report& report);

}  // namespace qkgeom

#include "qkgeom/report/detail/fit_csv.hpp"
