// SPDX-License-Identifier: MIT
// AP_drop split into its causes: planted causes come back, causes add up, and one counterfactual written out.
#include "examples/drop_split/split_drop.hpp"

#include "qkgeom/rotary/rotation_between.hpp"
#include "tests/plasticity/pair_oracle.hpp"

namespace qkgeom::examples {
namespace {
using test::ctx;

constexpr index_t full_length = 1000;
using change = std::function<void(double t, double* row)>;

/// Planted standard normal rows of d = 4, queries and keys then changed by their position; 20 query buckets.
struct head {
  planted_rows<double> rows;
  layer_moments moments;
  std::vector<query_model> models;

  head(const change& q, const change& k, covariance_kind kind = covariance_kind::joint, index_t documents = 96)
      : rows(plant({.dim = 4, .context_length = full_length, .documents = documents, .rows = 80, .seed = 5})) {
    for (std::size_t i = 0; i < rows.q_position.size(); ++i) q(rows.q_position[i], &rows.q[4 * i]);
    for (std::size_t i = 0; i < rows.k_position.size(); ++i) k(rows.k_position[i], &rows.k[4 * i]);
    moments = accumulate(ctx, as_layer(rows.view()), uniform_buckets{50}, {.context_length = full_length});
    models = fit_queries(ctx, moments, {.covariance = kind});
  }
  drop_split split(const drop_split_options& options = {}) const {
    return split_drop(ctx, models, as_layer(rows.view()), full_length, options)[0];
  }
};

/// Adds start + slope t to coordinate 0.
change along(double start, double slope) {
  return [=](double t, double* x) { x[0] += start + slope * t; };
}
const change unchanged = along(0, 0);

void expect_cause(const drop_split& s, drop_cause cause) {
  EXPECT_GT(s.drop.value, 0.15);
  double sum = s.rest.value;
  for (std::size_t p = 0; p < drop_causes; ++p) {
    const bool planted = p == static_cast<std::size_t>(cause);
    EXPECT_NEAR(s.cause[p].value, planted ? s.drop.value : 0.0, 0.03) << name_of(static_cast<drop_cause>(p));
    EXPECT_LT(s.cause[p].error, 0.03);
    sum += s.cause[p].value;
  }
  EXPECT_NEAR(s.rest.value, 0, 0.03);
  EXPECT_NEAR(sum, s.drop.value, 1e-14);
}

TEST(drop_split, each_planted_cause_comes_back) {
  const head drift(along(0.5, 0.005), unchanged);
  expect_cause(drift.split(), drop_cause::drift);

  // Means of a fifth of the context each that have no slope over the whole.
  const head content(
      [](double t, double* q) {
        constexpr double mean[] = {0.3, 4.3, 1, 0.3, 2.3};
        q[1] += mean[static_cast<int>(t / 200)];
      },
      unchanged);
  expect_cause(content.split(), drop_cause::content_mean);

  const head variance(
      [](double t, double* q) {
        for (int c = 0; c < 4; ++c) q[c] = 1 + q[c] * (2.5 - 0.0022 * t);
      },
      unchanged);
  expect_cause(variance.split(), drop_cause::variance);

  const head keys(along(3, 0), along(0, 0.006));
  expect_cause(keys.split(), drop_cause::keys);
}

TEST(drop_split, two_causes_share_the_drop_and_the_parts_add_up) {
  for (const auto kind : all_covariance_kinds) {
    const head both(along(0.5, 0.002), along(0, 0.006), kind);
    const auto s = both.split();
    EXPECT_GT(s.cause[static_cast<std::size_t>(drop_cause::drift)].value, 0.05);
    EXPECT_GT(s.cause[static_cast<std::size_t>(drop_cause::keys)].value, 0.05);
    double sum = s.rest.value;
    for (const auto& p : s.cause) sum += p.value;
    const auto profile = plasticity_profile(ctx, both.models, as_layer(both.rows.view()))[0];
    const auto want = summarize(profile, full_length).drop;
    EXPECT_NEAR(sum, want.value, 1e-14);
    EXPECT_DOUBLE_EQ(s.drop.value, want.value);
    EXPECT_DOUBLE_EQ(s.drop.error, want.error);
    EXPECT_EQ(s.documents.size(), 96u);
    for (std::size_t e = 0; e < s.without.size(); ++e) {
      double causes = 0;
      for (std::size_t i = 1; i < s.without[e].size(); ++i) causes += s.without[e][i];
      EXPECT_NEAR(causes, s.without[e][0], 1e-14);
    }
  }
}

TEST(drop_split, a_counterfactual_is_what_its_definition_says) {
  const head h(along(0.5, 0.002), along(0, 0.006), covariance_kind::joint, 4);
  // The drift term frozen at its mean over the buckets of the first fifth, and pairs reweighed to their distances
  // there.
  auto model = h.models[0];
  double mean = 0, queries = 0;
  const auto in_first = [&](index_t b) { return b >= 1 && model.buckets.middle(b) < 0.2 * full_length; };
  for (index_t b = 0; b < 20; ++b) {
    const auto& bucket = model.bucket[b];
    if (!in_first(b)) continue;
    mean += static_cast<double>(bucket.queries) * bucket.mean[0];
    queries += static_cast<double>(bucket.queries);
  }
  for (auto& bucket : model.bucket) bucket.mean[0] = mean / queries;
  constexpr index_t cell = 30;
  std::map<index_t, std::map<index_t, double>> count;
  std::map<index_t, double> all;
  const auto each_pair = [&](const auto& each) { test::for_each_pair(model, h.rows.view(), false, {}, each); };
  each_pair([&](const test::oracle_pair& p) {
    ++count[p.bucket][p.keys.distance() / cell];
    ++all[p.bucket];
  });
  std::map<index_t, double> region;
  for (auto& [b, cells] : count)
    if (in_first(b))
      for (const auto& [c, n] : cells) region[c] += n / all[b] * static_cast<double>(model.bucket[b].queries);
  std::map<index_t, test::oracle_mean> want;
  each_pair([&](const test::oracle_pair& p) {
    const index_t c = p.keys.distance() / cell;
    want[p.bucket].add(p.group, p.value[0], region[c] / count[p.bucket][c]);
  });
  const auto mean_of = [&](double low, double high) {
    double sum = 0, weight = 0;
    for (const auto& [b, m] : want) {
      if (model.buckets.middle(b) < low || model.buckets.middle(b) >= high) continue;
      const auto w = static_cast<double>(model.bucket[b].queries);
      sum += w * m.mean();
      weight += w;
    }
    return sum / weight;
  };
  const auto split = h.split({.distance_cell = cell});
  EXPECT_NEAR(split.drop_with[0b1001], mean_of(0, 0.2 * full_length) - mean_of(0.8 * full_length, full_length), 1e-12);
}

TEST(drop_split, keys_rotated_back_see_no_distance) {
  for (const char* style : {"half", "interleaved"})
    for (const auto kind : all_covariance_kinds) {
      const captured_rope rope{style, 4, 1, {0.003, 0.0007}};
      const auto rotated = [&](double t, double* x) {
        for (int c = 0; c < 4; ++c) x[c] = 0.5 * x[c] + 2 + c;
        vector_rotation(rope, t)(x);
      };
      const head h(rotated, rotated, kind, 24);
      const auto s = h.split({.rotation = rope});
      EXPECT_GT(std::abs(s.drop.value), 0.05);
      // A query meets keys that all stand half a bucket before it, whatever bucket it is in. A model of one covariance
      // for all buckets, or of one in the axes of the drift, does not turn with its queries.
      if (kind == covariance_kind::joint) {
        EXPECT_NEAR(s.drop_with[0b1000], 0, 0.01) << style;
      }
      double sum = s.rest.value;
      for (const auto& p : s.cause) sum += p.value;
      EXPECT_NEAR(sum, s.drop.value, 1e-14);
    }
}

TEST(drop_split, a_rotation_of_more_coordinates_than_keys_have_is_refused) {
  const head h(unchanged, unchanged, covariance_kind::joint, 4);
  EXPECT_QKGEOM_ERROR("more coordinates than keys have, 4",
                      h.split({.rotation = captured_rope{"half", 6, 1, {1, 1, 1}}}));
}

TEST(drop_split, means_over_heads_leave_a_document_out_of_all_at_once) {
  const head a(along(0.5, 0.005), unchanged), b(along(3, 0), along(0, 0.006));
  const auto x = a.split(), y = b.split();
  drop_split none = x;
  none.drop.value = std::nan("");
  for (index_t v = 0; v < drop_causes + 2; ++v) {
    const auto mean = mean_over_heads({&x, &y, &none}, v);
    std::vector<double> without;
    for (std::size_t e = 0; e < x.documents.size(); ++e) without.push_back(0.5 * (x.without[e][v] + y.without[e][v]));
    EXPECT_NEAR(mean.error, jackknife_error(without), 1e-13);
  }
  EXPECT_NEAR(mean_over_heads({&x, &y}, 0).value, 0.5 * (x.drop.value + y.drop.value), 1e-15);
  EXPECT_TRUE(std::isnan(mean_over_heads({&none}, 0).value));
}

TEST(drop_split, a_head_without_a_first_fifth_has_no_split) {
  head h(unchanged, unchanged);
  for (std::size_t b = 0; b < 5; ++b) h.models[0].bucket[b] = {};
  const auto s = h.split();
  EXPECT_TRUE(std::isnan(s.drop.value));
  EXPECT_TRUE(std::isnan(s.cause[0].value));
}

}  // namespace
}  // namespace qkgeom::examples
