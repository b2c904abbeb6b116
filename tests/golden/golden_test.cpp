// SPDX-License-Identifier: MIT
// Every analysis against answers that an independent float64 NumPy program gave for the same captures
// (tests/data/golden/README.md). On f64 rows with f64 pair arithmetic the bound is 1e-9.
#include <nlohmann/json.hpp>

#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/model/component_weights.hpp"
#include "qkgeom/model/fit_checks.hpp"
#include "qkgeom/plasticity/bucket_table.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/plasticity/summary.hpp"
#include "qkgeom/report/columns.hpp"
#include "tests/common/data_files.hpp"
#include "tests/common/on_cpu.hpp"

namespace {

using namespace qkgeom;
using nlohmann::json;
using test::ctx;
using test::golden_case;

/// Calls f(head view, answers) for every head of the golden file.
template <class F>
void for_each_head(const golden_case& c, F&& f) {
  const auto capture = qkgeom::capture::open(test::golden(c.capture + ".safetensors"));
  const json all = json::parse(std::ifstream(test::golden(c.answers + ".json")));
  int seen = 0;
  for (const auto& head : all.at("heads")) {
    const auto layer = capture.read_layer(head.at("layer"));
    SCOPED_TRACE("layer " + head.at("layer").dump() + " head " + head.at("query_head").dump());
    layer.visit([&]<class T>(const layer_view<T>& view) {
      for (std::size_t h = 0; h < layer.query_heads.size(); ++h)
        if (layer.query_heads[h] == head.at("query_head").get<index_t>()) {
          f(view.head(static_cast<index_t>(h)), head, all);
          ++seen;
        }
    });
  }
  EXPECT_EQ(seen, static_cast<int>(all.at("heads").size()));
}

/// |got - want| <= bound max(|want|, scale).
void expect_close(double got, const json& want, double bound, double scale, const std::string& what) {
  if (want.is_null()) {
    EXPECT_TRUE(std::isnan(got)) << what;
    return;
  }
  const double w = want.get<double>();
  EXPECT_LE(std::abs(got - w), bound * std::max(std::abs(w), scale)) << what << ": got " << got << ", want " << w;
}

class golden : public testing::TestWithParam<golden_case> {
 protected:
  template <class Head>
  head_moments moments_of(const Head& head, const json& all) {
    return accumulate(ctx, head, uniform_buckets{all.at("bucket").get<index_t>()},
                      {.context_length = all.at("context")});
  }
};

TEST_P(golden, pca) {
  for_each_head(GetParam(), [&](const auto& head, const json& want, const json& all) {
    const auto m = moments_of(head, all);
    const auto r = pca(ctx, m);
    const auto& w = want.at("pca");
    EXPECT_EQ(m.q.total.count, want.at("n_q").get<index_t>());
    EXPECT_EQ(m.k.total.count, want.at("n_k").get<index_t>());
    for (const auto& c : w.at("components")) {
      const auto j = c.at("component").get<std::size_t>();
      expect_close(r.explained_variance[j], c.at("explained"), 1e-9, 0, "explained " + std::to_string(j));
      expect_close(r.r_q[j], c.at("r_q"), 1e-9, 1, "r_q " + std::to_string(j));
      expect_close(r.r_k[j], c.at("r_k"), 1e-9, 1, "r_k " + std::to_string(j));
    }
    EXPECT_EQ(name_of(r.head_class), w.at("head_class").get<std::string>());
    expect_close(r.q_linear_share, w.at("q_linear_share"), 1e-9, 0, "q_linear_share");
    expect_close(r.k_linear_share, w.at("k_linear_share"), 1e-9, 0, "k_linear_share");
    expect_close(r.q_component_share, w.at("q_component_share"), 1e-9, 0, "q_component_share");
    expect_close(r.k_component_share, w.at("k_component_share"), 1e-9, 0, "k_component_share");
  });
}

TEST_P(golden, rotation) {
  for_each_head(GetParam(), [&](const auto& head, const json& want, const json& all) {
    const auto m = moments_of(head, all);
    for (const bool top : {false, true}) {
      const auto r = planar_rotation(
          ctx, m, {.separation = top ? separation_axis_kind::top_eigenvector : separation_axis_kind::centroid});
      const auto& w = want.at(top ? "rotation_top_eigenvector" : "rotation");
      for (std::size_t i = 0; i < r.drift_axis.size(); ++i) {
        expect_close(r.drift_axis[i], w.at("axis_a")[i], 1e-9, 1, "axis_a");
        expect_close(r.separation_axis[i], w.at("axis_b")[i], 1e-9, 1, "axis_b");
      }
      std::size_t known = 0;
      for (const auto& number : rotation_numbers) {
        if (!w.contains(number.name)) continue;
        const double floor = std::string(number.name).starts_with("mu_") ? 1e-2 : 0;
        expect_close(number.of(r), w.at(number.name), 1e-9, floor, number.name);
        ++known;
      }
      EXPECT_EQ(known, 14u);
      EXPECT_LT(r.residual_pos_r, 1e-12);
      EXPECT_NEAR(dense::dot(r.drift_axis, r.separation_axis), 0, 1e-14);
    }
  });
}

TEST_P(golden, query_model) {
  for_each_head(GetParam(), [&](const auto& head, const json& want, const json& all) {
    const auto m = moments_of(head, all);
    const auto model = fit_queries(ctx, m);
    const auto& w = want.at("query_model");
    expect_close(model.alpha_pos, w.at("alpha_pos"), 1e-9, 1e-2, "alpha_pos");
    expect_close(model.beta_pos, w.at("beta_pos"), 1e-9, 0, "beta_pos");
    expect_close(model.sigma2_pos, w.at("sigma2_pos"), 1e-9, 0, "sigma2_pos");
    for (const auto& [name, bucket] : w.at("buckets").items()) {
      const auto b = static_cast<std::size_t>(std::stoi(name));
      EXPECT_EQ(model.bucket[b].queries, bucket.at("n").template get<index_t>());
      expect_close(m.q.bucket[b].mean_t, bucket.at("mean_t"), 1e-12, 0, "mean_t");
      for (std::size_t i = 0; i < bucket.at("mu").size(); ++i) {
        expect_close(model.bucket[b].mean[i + 1], bucket.at("mu")[i], 1e-9, 1e-1, "mu");
        expect_close(model.bucket[b].variance[i + 1], bucket.at("var")[i], 1e-9, 0, "var");
      }
    }
  });
}

void expect_profile(const plasticity_profile_result& got, const json& want, double bound, const std::string& what) {
  std::size_t with_value = 0;
  for (const auto& b : got.buckets) with_value += !std::isnan(b.plasticity);
  EXPECT_EQ(with_value, want.size()) << what;
  for (const auto& w : want) {
    const auto& b = got.buckets[w.at("q_bucket").get<std::size_t>()];
    expect_close(b.plasticity, w.at("mean"), bound, 1, what + " bucket " + w.at("q_bucket").dump());
    EXPECT_EQ(b.queries, w.at("queries").get<index_t>()) << what;
    if (what != "diagonal_prefix_uniform") {
      EXPECT_EQ(b.pairs, w.at("pairs").get<std::int64_t>()) << what;
    }
  }
}

void expect_summary(const plasticity_profile_result& p, index_t length, const json& w, double bound,
                    const std::string& what) {
  const auto s = summarize(p, length);
  expect_close(s.overall.value, w.at("ap_overall"), bound, 1, what + " ap_overall");
  expect_close(s.first20.value, w.at("ap_first_20"), bound, 1, what + " ap_first_20");
  expect_close(s.last20.value, w.at("ap_last_20"), bound, 1, what + " ap_last_20");
  expect_close(s.drop.value, w.at("ap_drop"), bound, 1, what + " ap_drop");
  const double L = static_cast<double>(length);
  const std::pair<const char*, std::vector<double>> kinds[] = {
      {"quintiles", equal_bins(length, 5)}, {"deciles", equal_bins(length, 10)}, {"bins", {0, L / 8, L / 4, L / 2, L}}};
  for (const auto& [kind, edges] : kinds) {
    const auto bins = bin_means(p, edges);
    ASSERT_EQ(bins.size(), w.at(kind).size());
    for (std::size_t i = 0; i < bins.size(); ++i)
      expect_close(bins[i].plasticity.value, w.at(kind)[i], bound, 1, what + " " + kind);
  }
}

/// A named profile of the golden files, with the query buckets' grid and options that the name stands for.
struct variant {
  std::string name;
  query_model_options model{};
  bool uneven = false, windowed = false, across = false, prefix = false;
};

const std::vector<variant>& variants() {
  static const std::vector<variant> all = {{"diagonal", {}},
                                           {"full", {.covariance = covariance_kind::full}},
                                           {"joint", {.covariance = covariance_kind::joint}},
                                           {"linear_drift", {.covariance = covariance_kind::linear_drift}},
                                           {"diagonal_tau_mean", {.position = query_position::mean}},
                                           {"diagonal_no_drift", {.no_drift = true}},
                                           {"diagonal_uneven_edges", {}, true},
                                           {"diagonal_window_3_buckets", {}, false, true},
                                           {"diagonal_across_examples", {}, false, false, true},
                                           {"diagonal_prefix_uniform", {}, false, false, false, true}};
  return all;
}

/// Profile and summaries of every variant; f32 pair arithmetic is allowed 1e-6.
void check_variants(const golden_case& c, pair_precision precision, double bound) {
  for_each_head(c, [&](auto head, const json& want, const json& all) {
    const auto size = all.at("bucket").template get<index_t>(), length = all.at("context").template get<index_t>();
    for (const auto& v : variants()) {
      if (!want.at("profiles").contains(v.name)) continue;
      const auto edges = v.uneven ? bucket_edges(want.at("uneven_edges").template get<std::vector<index_t>>())
                                  : uniform_buckets{size}.edges(length);
      const auto m = accumulate(ctx, head, edge_buckets{edges.edges()}, {.context_length = length});
      const auto model = fit_queries(ctx, m, v.model);
      head.window = v.windowed ? std::optional<index_t>(3 * size) : std::nullopt;
      const profile_options options{.heatmap = v.name == "diagonal", .precision = precision};
      const auto p = v.prefix ? plasticity_profile(ctx, model, head, prefix_uniform{}, options)
                              : plasticity_profile(ctx, model, head, all_pairs{.across_documents = v.across}, options);
      expect_profile(p, want.at("profiles").at(v.name), bound, v.name);
      expect_summary(p, length, want.at("summaries").at(v.name), bound, v.name);
      if (v.name != "diagonal") continue;
      std::size_t cells = 0;
      for (const double w : p.heatmap.weight) cells += w > 0;
      EXPECT_EQ(cells, want.at("heatmap").size());
      for (const auto& cell : want.at("heatmap")) {
        const auto i = cell.at("key_distance_cell").template get<index_t>(),
                   j = cell.at("query_distance_cell").template get<index_t>();
        expect_close(p.heatmap.mean(i, j), cell.at("mean"), bound, 1, "heatmap");
        EXPECT_EQ(p.heatmap.weight[i * p.heatmap.width + j], cell.at("pairs").template get<double>());
      }
    }
  });
}

TEST_P(golden, profiles_f64) { check_variants(GetParam(), pair_precision::f64, 1e-9); }
TEST_P(golden, profiles_f32) { check_variants(GetParam(), pair_precision::f32, 1e-6); }

TEST_P(golden, empirical) {
  for_each_head(GetParam(), [&](const auto& head, const json& want, const json& all) {
    const auto length = all.at("context").get<index_t>();
    const auto p = empirical_profile(ctx, head, uniform_buckets{all.at("bucket").get<index_t>()}, length);
    // A comparison of two scores flips only if they differ by less than the rounding of a dot product; none does here
    // for f64 scores. With f32 scores (bf16, f32 rows) single pairs may, each by 4/n: see docs/numerics.md.
    const double bound = std::is_same_v<typename std::decay_t<decltype(head)>::element, double> ? 1e-9 : 1e-6;
    expect_profile(p, want.at("profiles").at("empirical"), bound, "empirical");
    const auto f64 = empirical_profile(ctx, head, uniform_buckets{all.at("bucket").get<index_t>()}, length,
                                       {.precision = pair_precision::f64});
    expect_profile(f64, want.at("profiles").at("empirical"), 1e-9, "empirical in f64");
    expect_summary(p, length, want.at("summaries").at("empirical"), bound, "empirical");
  });
}

TEST_P(golden, fit_checks) {
  for_each_head(GetParam(), [&](const auto& head, const json& want, const json& all) {
    const auto m = moments_of(head, all);
    const auto r = fit_checks(ctx, m, head);
    const auto& w = want.at("fit_checks");
    expect_close(r.residual.skewness, w.at("residual").at("skewness"), 1e-9, 1, "skewness");
    expect_close(r.residual.kurtosis, w.at("residual").at("kurtosis"), 1e-9, 1, "kurtosis");
    expect_close(r.residual.ks_distance, w.at("residual").at("ks_distance"), 1e-9, 1e-2, "ks_distance");
    expect_close(r.residual.ks_p, w.at("residual").at("ks_p"), 1e-2, 0, "ks_p");
    expect_close(r.noise.abs_skewness, w.at("noise_med_abs_skew"), 1e-9, 1, "noise_med_abs_skew");
    expect_close(r.noise.abs_kurtosis, w.at("noise_med_abs_kurt"), 1e-9, 1, "noise_med_abs_kurt");
    expect_close(r.noise.ks_p, w.at("noise_med_ks_p"), 1e-2, 0, "noise_med_ks_p");
    expect_close(r.noise.share_below_alpha, w.at("noise_frac_ks_p_lt_001"), 1e-12, 0, "noise_frac_ks_p_lt_001");
    expect_close(r.r2_pos, w.at("q_R2_pos"), 1e-9, 0, "q_R2_pos");
    expect_close(r.beta_norm, w.at("q_beta_norm"), 1e-9, 0, "q_beta_norm");
    expect_close(r.r2_scalar, w.at("q_R2_scalar"), 1e-9, 0, "q_R2_scalar");
    expect_close(r.mae_baseline, w.at("q_mae_baseline"), 1e-9, 0, "q_mae_baseline");
    expect_close(r.mae_proj, w.at("q_mae_proj"), 1e-9, 0, "q_mae_proj");
  });
}

TEST_P(golden, component_weights) {
  for_each_head(GetParam(), [&](const auto& head, const json& want, const json& all) {
    const auto m = moments_of(head, all);
    const auto r = component_weights(ctx, m);
    ASSERT_EQ(r.r2.size(), want.at("component_weights").size());
    for (const auto& w : want.at("component_weights")) {
      const auto c = w.at("component").get<std::size_t>();
      expect_close(r.r2[c], w.at("r2"), 1e-9, 1e-3, "r2");
      expect_close(r.weight[c], w.at("weight"), 1e-9, 1e-3, "weight");
    }
  });
}

// As captured, not turned to the keys' signs.
TEST_P(golden, bucket_table) {
  std::size_t compared = 0;
  for_each_head(GetParam(), [&](const auto& head, const json& want, const json& all) {
    const auto model = fit_queries(ctx, moments_of(head, all),
                                   {.covariance = covariance_kind::linear_drift, .position = query_position::mean});
    const auto table = bucket_table(ctx, model, head, all_pairs{}, {.precision = pair_precision::f64});
    std::size_t filled = 0;
    for (const auto& cell : table.cells) filled += cell.pairs > 0;
    EXPECT_EQ(filled, want.at("author_bucket_table_unoriented").size());
    for (const auto& w : want.at("author_bucket_table_unoriented")) {
      const auto& cell = table.cell(w.at("q_bucket"), w.at("k_bucket"));
      EXPECT_EQ(cell.pairs, w.at("pairs").get<std::int64_t>());
      EXPECT_NEAR(cell.plasticity, w.at("ap_bucket").get<double>(), 1e-9);
      ++compared;
    }
  });
  EXPECT_GT(compared, 100u);
}

INSTANTIATE_TEST_SUITE_P(captures, golden, test::golden_cases, test::name_of_case);

}  // namespace
