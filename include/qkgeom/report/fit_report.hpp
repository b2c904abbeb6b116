// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/io/csv.hpp"
#include "qkgeom/model/drift_significance.hpp"
#include "qkgeom/model/fit_checks.hpp"
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/plasticity/score_checks.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom {

/// A copy of at most `most` queries and at most `most` keys of a layer: the rows with the smallest counter-based random
/// numbers, in their order.
template <class T>
class thinned_layer {
 public:
  thinned_layer(const layer_view<T>& from, index_t most, std::uint64_t seed) : view_(from) {
    keep(view_.q, view_.q_position, view_.q_document, q_, most, {seed, 0, 0, draw::fit_row});
    keep(view_.k, view_.k_position, view_.k_document, k_, most, {seed, 1, 0, draw::fit_row});
  }
  thinned_layer(const thinned_layer&) = delete;
  thinned_layer& operator=(const thinned_layer&) = delete;

  const layer_view<T>& view() const { return view_; }

 private:
  struct side {
    std::vector<T> rows;
    std::vector<std::int32_t> position, document;
  };

  /// Chooses at most `most` of n rows, ascending.
  static std::vector<index_t> kept_rows(index_t n, index_t most, const random_stream& stream) {
    std::vector<std::pair<double, index_t>> drawn;
    for (index_t i = 0; i < n; ++i) drawn.emplace_back(stream.uniform(static_cast<std::uint64_t>(i)), i);
    if (most < n) {
      std::nth_element(drawn.begin(), drawn.begin() + most, drawn.end());
      drawn.resize(most);
    }
    std::vector<index_t> rows;
    for (const auto& [number, row] : drawn) rows.push_back(row);
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  static void keep(tensor_view<const T>& x, vector_view<const std::int32_t>& position,
                   vector_view<const std::int32_t>& document, side& to, index_t most, const random_stream& stream) {
    for (const index_t i : kept_rows(x.rows, most, stream)) {
      for (index_t h = 0; h < x.heads; ++h) to.rows.insert(to.rows.end(), x.head(h).row(i), x.head(h).row(i) + x.dim);
      to.position.push_back(position[i]);
      to.document.push_back(document[i]);
    }
    const auto n = static_cast<index_t>(to.position.size());
    x = packed_tensor<const T>(to.rows.data(), n, x.heads, x.dim);
    position = {to.position.data(), n};
    document = {to.document.data(), n};
  }

  side q_, k_;
  layer_view<T> view_;
};

/// Options of the checks of a layer's query models.
struct fit_options {
  fit_check_options checks{};
  score_check_options scores{};
  drift_test_options drift{};
  index_t most_rows = 0;  ///< most queries and most keys of a head, to which more are thinned; 0: all
};

/// Fit of the query model to one query head.
struct head_fit {
  index_t layer = 0, q_head = 0, k_head = 0, queries = 0;
  double alpha_pos = 0, beta_pos = 0, sigma2_pos = 0, r2_axis = 0;  ///< regression of coordinate 1 on position
  drift_test_result drift;
  fit_checks_result fit;
  score_checks_result scores;
};

/// Checks the fit of every query head of a layer over these query buckets. Needs rows in host memory.
template <context Context, class T>
std::vector<head_fit> fit_layer(Context& ctx, const layer_view<T>& all, const layer_names& names,
                                const bucket_edges& buckets, const fit_options& options = {});

/// A column of the fit of a head's queries.
struct fit_column {
  std::string name, meaning;
  std::function<double(const fit_checks_result&)> value;
};

/// Returns the columns of fits.csv from q_R2_pos to q_noise_frac_ks_p_lt_alpha.
const std::vector<fit_column>& fit_columns();

/// Returns fits.csv: a row per head; the fit columns under the names of the author's tool, then this library's.
table fits_table(const std::vector<head_fit>& heads);

/// Returns Gaussian minus empirical plasticity by query bucket, with the jackknife error of the difference over
/// documents; NaN where either is. Throws `error` if their buckets, documents or pairs differ.
plasticity_profile_result plasticity_gap(const plasticity_profile_result& gaussian,
                                         const plasticity_profile_result& empirical_unbiased);

/// Returns gaps.csv: `plasticity_gap`, a row per head, query bucket and query model of the report.
table gaps_table(const model_report& report);

template <context Context, class T>
std::vector<head_fit> fit_layer(Context& ctx, const layer_view<T>& all, const layer_names& names,
                                const bucket_edges& buckets, const fit_options& options) {
  if (options.most_rows > 0 && std::max(all.q.rows, all.k.rows) > options.most_rows) {
    const thinned_layer<T> thinned(all, options.most_rows, options.checks.seed);
    auto same = options;
    same.most_rows = 0;
    return fit_layer(ctx, thinned.view(), names, buckets, same);
  }
  const edge_buckets grid{buckets.edges()};
  const auto moments = accumulate(ctx, all, grid, {.q_bucket = scatter_kind::diagonal});
  const auto models = fit_queries(ctx, moments, {.covariance = covariance_kind::linear_drift});
  const auto fits = fit_checks(ctx, moments, all, options.checks);
  const auto tests = drift_significance(ctx, moments, all, options.drift);
  auto scores = score_checks(ctx, all, grid, 0, options.scores);
  std::vector<head_fit> heads;
  for (std::size_t h = 0; h < fits.size(); ++h)
    heads.push_back({names.layer, names.query_heads[h], names.key_heads[all.key_of_query[h]], all.q.rows,
                     models[h].alpha_pos, models[h].beta_pos, models[h].sigma2_pos, models[h].r2_pos, tests[h], fits[h],
                     std::move(scores[h])});
  return heads;
}

}  // namespace qkgeom
