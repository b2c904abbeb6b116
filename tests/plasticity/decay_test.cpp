// SPDX-License-Identifier: MIT
#include "qkgeom/plasticity/decay.hpp"

#include <boost/math/distributions/beta.hpp>

#include "qkgeom/linalg/dense.hpp"
#include "qkgeom/plasticity/keys_by_document.hpp"
#include "tests/plasticity/pair_oracle.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

TEST(decay_inequality, the_disc_inside_the_square_gives_a_constant_of_one) {
  for (double z = 0; z <= 38; z += 1e-3)
    EXPECT_LE(pair_plasticity(z, 1), std::exp(-z * z / 2) * (1 + 4e-15)) << z;  // 4e-15: rounding of z^2 / 2 up to 722
  EXPECT_EQ(pair_plasticity(0, 1), 1);
  EXPECT_GT(pair_plasticity(1, 1), 0.75 * std::exp(-0.5));  // the bound is not loose
}

/// Keys at positions 4 i of two documents, which are the queries as well.
planted_rows<double> keys_of_two(std::int32_t n, index_t dim, std::uint64_t seed) {
  planted_rows<double> rows;
  rows.dim = dim;
  const random_stream stream{seed, 0, 0, draw::planted};
  for (std::int32_t e = 0; e < 2; ++e)
    for (std::int32_t i = 0; i < n; ++i) {
      rows.k_position.push_back(4 * i);
      rows.k_document.push_back(e);
      for (index_t c = 0; c < dim; ++c) rows.k.push_back(stream.normal(rows.k.size()));
    }
  rows.q = rows.k, rows.q_position = rows.k_position, rows.q_document = rows.k_document;
  return rows;
}

/// A model that fulfils the theorem's assumptions exactly: one mean and one covariance in all buckets.
query_model exact_model(const std::vector<double>& beta, const std::vector<double>& content, double sigma,
                        index_t length, index_t width) {
  const std::size_t d = beta.size();
  query_model m{covariance_kind::full,
                uniform_buckets{width}.edges(length),
                householder_reflector(beta),
                0.3,
                dense::norm(beta),
                sigma * sigma,
                0,
                {}};
  for (index_t b = 0; b < m.buckets.count(); ++b) {
    query_bucket out{10, m.buckets.middle(b), content, std::vector<double>(d, sigma * sigma), {}};
    out.mean[0] = m.alpha_pos + m.beta_pos * out.tau;
    out.root = {static_cast<index_t>(d), std::vector<double>(d * d)};
    for (std::size_t i = 0; i < d; ++i)
      for (std::size_t j = 0; j <= i; ++j)
        out.root.factor[i * d + j] = i == j ? sigma : (j == 0 ? 0.0 : 0.1 * sigma);  // coordinate 1 independent
    m.bucket.push_back(out);
  }
  return m;
}

/// Calls each(pair, its decay, the buckets' distributions) for every pair of the layer that `model` admits; gives
/// the number of pairs.
template <class Each>
std::size_t for_each_decay(const query_model& model, const layer_view<double>& layer, const Each& each) {
  const auto present = detail::distributions_of(model, {});
  const auto keys = order_keys_by_document(layer.k_position, layer.k_document, false);
  const auto drawn = detail::draw_admitted_pairs(keys, present.distributions, 1 << 20, 0);
  for (const auto& pair : drawn.pairs)
    each(pair, detail::decay_of_pair<double>(layer.k.head(0), pair, model, present.distributions),
         present.distributions);
  return drawn.pairs.size();
}

TEST(decay, an_exact_model_obeys_the_bound_pair_by_pair) {
  const auto rows = keys_of_two(60, 5, 3);
  const auto layer = as_layer(rows.view());
  const auto model = exact_model({0.01, -0.03, 0.02, 0, 0.01}, {0, 0.5, -1, 0.2, 0.3}, 1.2, 240, 20);
  const auto pairs = for_each_decay(model, layer, [](const auto& pair, const auto& p, const auto& distributions) {
    EXPECT_NEAR(p.t_0 * std::abs(p.gamma), 2 * std::abs(p.z_0), 1e-12 * (1 + p.t_0 * std::abs(p.gamma)));
    if (pair.buckets > 1) {
      EXPECT_LT(std::abs(p.relative_slope), 1e-14) << "v must not depend on t";
    }
    for (std::size_t b = 0; b < pair.buckets; ++b) {
      const double t = distributions[pair.first + b].tau, z = p.gamma * t + p.z_0;
      EXPECT_NEAR(p.plasticity[b], pair_plasticity(z, 1), 1e-12);
      if (t >= p.t_0) {
        EXPECT_LE(p.plasticity[b], std::exp(-p.gamma * p.gamma * t * t / 8) * (1 + 1e-12));
      }
    }
  });
  ASSERT_GT(pairs, 2000u);
  const auto r = decay_of(ctx, {model}, layer, "exact", {.max_pairs = 1 << 20})[0];
  EXPECT_EQ(r.all_pairs, static_cast<double>(r.pairs));
  EXPECT_EQ(r.buckets[0].pairs, 0);
  EXPECT_TRUE(std::isnan(r.buckets[0].bound.value));
  for (const auto& b : r.buckets) {
    if (b.pairs == 0) continue;
    EXPECT_EQ(b.broken.value, 0);
    EXPECT_LE(b.plasticity.value, b.promised.value);
    EXPECT_LE(b.bound.value, b.promised.value);
  }
  EXPECT_GT(r.buckets.back().past.value, r.buckets[1].past.value);
  EXPECT_EQ(r.pi_0.value, 0);
  EXPECT_EQ(r.ap_infinity.value, 0);
}

/// The variance grows with the bucket, against the theorem's assumption: plasticity stays above the bound.
TEST(decay, pairs_that_break_the_bound_are_counted) {
  const auto rows = keys_of_two(40, 4, 6);
  const auto layer = as_layer(rows.view());
  auto model = exact_model({0.02, -0.03, 0.01, 0.02}, {0, 0.4, -0.5, 0.3}, 1, 240, 20);
  for (std::size_t b = 0; b < model.bucket.size(); ++b)
    for (double& f : model.bucket[b].root.factor) f *= 1 + static_cast<double>(b);
  const auto r = decay_of(ctx, {model}, layer, "grows", {.max_pairs = 1 << 20})[0];
  std::map<std::pair<double, std::size_t>, std::array<double, 3>> by_bucket;  // document: pairs, past, broken
  std::array<double, 3> all{};
  for_each_decay(model, layer, [&](const auto& pair, const auto& p, const auto& distributions) {
    for (std::size_t b = 0; b < pair.buckets; ++b) {
      const double t = distributions[pair.first + b].tau;
      const bool past = t * std::abs(p.gamma) >= 2 * std::abs(p.z_0);
      const bool broken = past && std::log(p.plasticity[b]) > -p.gamma * p.gamma * t * t / 8 + 1e-12;
      for (auto* sums : {&all, &by_bucket[{t, pair.document}]}) {
        (*sums)[0] += 1;
        (*sums)[1] += past;
        (*sums)[2] += broken;
      }
    }
  });
  EXPECT_GT(all[2], 0.1 * all[1]);
  EXPECT_LT(all[2], 0.9 * all[1]);
  EXPECT_NEAR(r.past.value, all[1] / all[0], 1e-14);
  EXPECT_NEAR(r.broken.value, all[2] / all[0], 1e-14);
  EXPECT_TRUE(std::isnan(r.broken.error));  // of two documents
  for (const auto& bucket : r.buckets) {
    if (bucket.pairs == 0) continue;
    const auto &one = by_bucket[{bucket.tau, 0}], &other = by_bucket[{bucket.tau, 1}];
    EXPECT_EQ(static_cast<double>(bucket.pairs), one[0] + other[0]);
    EXPECT_NEAR(bucket.past.value, (one[1] + other[1]) / (one[0] + other[0]), 1e-14);
    EXPECT_NEAR(bucket.broken.value, (one[2] + other[2]) / (one[0] + other[0]), 1e-14);
  }
}

/// Coordinate 1 of the keys takes two values, so that delta_1 = 0 for a known share of pairs, whose plasticity stays.
TEST(decay, pairs_without_drift_are_what_remains) {
  auto rows = keys_of_two(40, 3, 4);
  for (std::size_t r = 0; r < rows.k_position.size(); ++r) rows.k[3 * r] = r % 4 == 0 ? 5.0 : 0.0;
  const auto layer = as_layer(rows.view());
  const auto model = exact_model({0.5, 0, 0}, {0, 0.8, -0.4}, 1, 320, 160);
  const auto r = decay_of(ctx, {model}, layer, "exact")[0];
  // All 40 keys lie below the one bucket that starts at 160: pairs of 10 and of 30 keys have delta_1 = 0.
  EXPECT_EQ(r.all_pairs, 2 * 40 * 39 / 2);
  EXPECT_DOUBLE_EQ(r.pi_0.value, (45.0 + 435.0) / 780.0);
  double still = 0;
  for (std::size_t e = 0; e < 2; ++e)
    for (std::size_t i = 0; i < 40; ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const double *a = &rows.k[3 * (40 * e + i)], *b = &rows.k[3 * (40 * e + j)];
        if (a[0] != b[0]) continue;
        const double d1 = a[1] - b[1], d2 = a[2] - b[2];
        // Rows 2 and 3 of the factor are (0, 1, 0) and (0, 0.1, 1): F' delta = (0, d1 + 0.1 d2, d2).
        still += pair_plasticity(0.8 * d1 - 0.4 * d2, (d1 + 0.1 * d2) * (d1 + 0.1 * d2) + d2 * d2) / 1560.0;
      }
  EXPECT_NEAR(r.ap_infinity.value, still, 1e-14);
  EXPECT_NEAR(r.buckets[1].plasticity.value, r.ap_infinity.value,
              1e-12);  // the rest has decayed: z is 240 / 5.1 and more
  EXPECT_NEAR(r.buckets[1].bound.value, r.pi_0.value, 1e-6);
}

TEST(decay, planted_heads_show_it) {
  const int d = 12;
  planted_head spec{.dim = d, .context_length = 4096, .documents = 40, .rows = 200, .seed = 7};
  const double slope = 4.0 / 4096;
  spec.drift_q.assign(d, 0);
  spec.drift_q[3] = slope;
  spec.mean_q.assign(d, 0);
  spec.mean_q[3] = slope * 2048 + 0.2;  // mean at t: 0.2 + slope t
  const auto rows = plant<float>(spec);
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{512}, {.context_length = 4096});
  const auto check = check_decay(ctx, m, rows.view());
  // delta is isotropic: gamma / slope is a coordinate of a uniform direction, its square Beta(1/2, (d - 1) / 2).
  const double want = slope * std::sqrt(boost::math::quantile(boost::math::beta_distribution<>(0.5, 5.5), 0.5));
  for (const auto* r : {&check.full, &check.pooled}) {
    EXPECT_NEAR(r->abs_gamma.median, want, 0.05 * want) << r->covariance;
    EXPECT_NEAR(r->gamma.median, 0, 0.05 * want);
    EXPECT_NEAR(r->gamma.p90, -r->gamma.p10, 0.05 * r->gamma.p90);
    EXPECT_NEAR(r->t_0.median, 2 * 0.2 / slope,
                0.5 * 2 * 0.2 / slope);  // z_0 is 0.2 gamma / slope and noise of the fit
    EXPECT_EQ(r->pi_0.value, 0);
    EXPECT_NEAR(static_cast<double>(r->pairs), 8192, 4 * std::sqrt(8192.0));
    for (std::size_t b = 1; b < r->buckets.size(); ++b) {  // no pair lies below bucket 0
      const auto& bucket = r->buckets[b];
      EXPECT_LE(bucket.plasticity.value, bucket.promised.value);
      EXPECT_LE(bucket.broken.value, 0.02);  // only by the noise of the buckets' means and covariances
      if (b == 1) continue;
      EXPECT_LT(bucket.plasticity.value, r->buckets[b - 1].plasticity.value);
      EXPECT_LT(bucket.bound.value, r->buckets[b - 1].bound.value);
    }
    EXPECT_LT(r->buckets.back().plasticity.value, 0.62);
  }
  EXPECT_LT(std::abs(check.pooled.variance_slope.p90), 1e-15);
  EXPECT_NEAR(check.pooled.variance_slope_mean.value, 0, 1e-12);
  EXPECT_LT(std::abs(check.full.variance_slope.median) * 4096, 0.1);  // planted: none
  EXPECT_GT(check.full.variance_slope.p90, 1e-9);
}

TEST(decay, a_variance_that_grows_is_seen) {
  const int d = 6;
  planted_head spec{.dim = d, .context_length = 2048, .documents = 30, .rows = 100, .seed = 8};
  auto rows = plant<double>(spec);
  for (std::size_t r = 0; r < rows.q_position.size(); ++r)  // standard deviation grows from 1 to 2 over the context
    for (std::size_t c = 0; c < 6; ++c) rows.q[6 * r + c] *= 1 + rows.q_position[r] / 2048.0;
  const auto m = accumulate(ctx, rows.view(), uniform_buckets{256}, {.context_length = 2048});
  const auto check = check_decay(ctx, m, rows.view());
  // v(t) = (1 + t / L)^2 |delta|^2; pairs see different stretches of it, 2 / (1 + t / L) / L a token at t.
  EXPECT_GT(check.full.variance_slope.p10 * 2048, 0.5);
  EXPECT_LT(check.full.variance_slope.p90 * 2048, 2.0);
  EXPECT_GT(check.full.variance_slope_mean.value, 5 * check.full.variance_slope_mean.error);
}

TEST(decay, all_pairs_give_the_profile_of_the_model) {
  planted_head spec{.dim = 8, .context_length = 1024, .documents = 5, .rows = 60, .seed = 9};
  spec.drift_q.assign(8, 1e-3);
  const auto rows = plant<double>(spec);
  for (const auto window : {std::optional<index_t>{}, std::optional<index_t>{300}}) {
    auto head = rows.view();
    head.window = window;
    const auto m = accumulate(ctx, head, uniform_buckets{128}, {.context_length = 1024});
    for (const auto kind : all_covariance_kinds) {
      const auto model = fit_queries(ctx, m, {.covariance = kind});
      const auto profile = plasticity_profile(ctx, model, head);
      const auto r = decay_of(ctx, {model}, as_layer(head), std::string(name_of(kind)), {.max_pairs = 1 << 20})[0];
      ASSERT_EQ(r.buckets.size(), profile.buckets.size());
      for (std::size_t b = 0; b < r.buckets.size(); ++b) {
        EXPECT_EQ(r.buckets[b].pairs, profile.buckets[b].pairs);
        if (r.buckets[b].pairs == 0) continue;
        EXPECT_NEAR(r.buckets[b].plasticity.value, profile.buckets[b].plasticity, 1e-9) << name_of(kind) << b;
        EXPECT_NEAR(r.buckets[b].plasticity.error, profile.buckets[b].standard_error, 1e-9);
      }
    }
  }
}

TEST(decay, drawn_pairs_are_those_that_a_search_finds) {
  const random_stream stream{2, 0, 0, draw::planted};
  std::vector<std::int32_t> position, document;
  for (std::int32_t i = 0; i < 90; ++i) {
    position.push_back(static_cast<std::int32_t>(stream.below(static_cast<std::uint64_t>(i), 200)));
    document.push_back(i % 3);
  }
  const index_t n = 90;
  const auto keys = order_keys_by_document({position.data(), n}, {document.data(), n}, false);
  for (const double window : {1e9, 70.0}) {
    std::vector<score_distribution> distributions;
    for (const index_t start : {20, 60, 100, 180}) {
      score_distribution distribution;
      distribution.before = start;
      distribution.tau = static_cast<double>(start) + 10;
      distribution.after = distribution.tau - window;
      distributions.push_back(distribution);
    }
    std::set<std::tuple<index_t, index_t, std::size_t, std::size_t>> want, got;
    for (index_t i = 0; i < n; ++i)
      for (index_t j = 0; j < i; ++j) {
        const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
        if (document[a] != document[b]) continue;
        std::vector<std::size_t> in;
        for (std::size_t l = 0; l < distributions.size(); ++l)
          if (std::max(position[a], position[b]) < distributions[l].before &&
              std::min(position[a], position[b]) > distributions[l].after)
            in.push_back(l);
        if (!in.empty()) want.insert({std::min(i, j), std::max(i, j), in.front(), in.size()});
      }
    const auto drawn = detail::draw_admitted_pairs(keys, distributions, 1 << 20, 0);
    for (const auto& p : drawn.pairs) {
      EXPECT_LE(position[p.row_i], position[p.row_j]);
      got.insert({std::min(p.row_i, p.row_j), std::max(p.row_i, p.row_j), p.first, p.buckets});
    }
    EXPECT_EQ(got, want);
    EXPECT_EQ(drawn.all, static_cast<double>(want.size()));
    EXPECT_EQ(drawn.pairs.size(), want.size());
    // Draws a tenth of the pairs over many seeds: the mean number fits, and all pairs are equally frequent.
    std::map<std::pair<index_t, index_t>, int> seen;
    int total = 0;
    const int seeds = 2000;
    for (std::uint64_t s = 0; s < seeds; ++s)
      for (const auto& p :
           detail::draw_admitted_pairs(keys, distributions, static_cast<index_t>(want.size() / 10), s).pairs) {
        ++seen[{p.row_i, p.row_j}];
        ++total;
      }
    const double kept = std::floor(static_cast<double>(want.size()) / 10),
                 each = kept / static_cast<double>(want.size());
    EXPECT_NEAR(total, kept * seeds, 4 * std::sqrt(kept * seeds));
    double square = 0;
    for (const auto& [pair, count] : seen) square += (count - each * seeds) * (count - each * seeds);
    square /= each * (1 - each) * seeds;  // chi squared of as many degrees of freedom as pairs
    const auto pairs = static_cast<double>(want.size());
    EXPECT_EQ(seen.size(), want.size());
    EXPECT_NEAR(square, pairs, 5 * std::sqrt(2 * pairs));
  }
}

TEST(decay, pooled_covariance_is_the_mean_by_degrees_of_freedom) {
  planted_head spec{.dim = 4, .context_length = 512, .documents = 6, .rows = 40, .seed = 11};
  spec.drift_q = {1e-3, 2e-3, 0, 0};
  const auto rows = plant<double>(spec);
  const auto m = accumulate(ctx, as_layer(rows.view()), uniform_buckets{128}, {.context_length = 512});
  const auto models = fit_queries(ctx, m, {.covariance = covariance_kind::full});
  const auto pooled = with_pooled_covariance(ctx, m, models)[0];
  std::vector<double> want(16);
  double freedom = 0;
  for (const auto& b : models[0].bucket) freedom += static_cast<double>(b.queries - 1);
  for (const auto& b : models[0].bucket)
    want = dense::sum(std::move(want), test::covariance_of(b, 4), static_cast<double>(b.queries - 1) / freedom);
  for (std::size_t b = 0; b < pooled.bucket.size(); ++b) {
    EXPECT_EQ(pooled.bucket[b].mean, models[0].bucket[b].mean);
    const auto got = test::covariance_of(pooled.bucket[b], 4);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-13);
  }
  EXPECT_THROW(with_pooled_covariance(ctx, m, fit_queries(ctx, m)), error);
  EXPECT_THROW(with_pooled_covariance(ctx, m, {}), error);
}

TEST(decay, without_drift_the_theorem_says_nothing) {
  const auto rows = keys_of_two(30, 3, 5);
  const auto model = exact_model({0, 0, 0}, {0, 1, 1}, 1, 120, 40);
  const auto r = decay_of(ctx, {model}, as_layer(rows.view()), "exact")[0];
  EXPECT_EQ(r.beta_pos, 0);
  EXPECT_TRUE(std::isnan(r.gamma.median));
  EXPECT_TRUE(std::isnan(r.t_0.p90));
  for (const auto& b : r.buckets)
    if (b.pairs > 0) {
      EXPECT_EQ(b.bound.value, 1);
      EXPECT_EQ(b.past.value, 0);
    }
  EXPECT_THROW(decay_of(ctx, {}, as_layer(rows.view()), "none"), error);
  EXPECT_THROW(decay_of(ctx, {model}, as_layer(rows.view()), "exact", {.max_pairs = 0}), error);
}

TEST(decay, keys_and_models_that_it_cannot_use_are_refused) {
  auto rows = keys_of_two(30, 3, 5);
  const auto wider = keys_of_two(30, 4, 5);
  const auto model = exact_model({1e-3, 0, 0}, {0, 1, 1}, 1, 120, 40);
  EXPECT_EQ(test::message_of([&] { decay_of(ctx, {model}, as_layer(wider.view()), "exact"); }),
            "decay_of: a query model of head size 3 for keys of size 4");
  const auto moments = accumulate(ctx, as_layer(rows.view()), uniform_buckets{40}, {.context_length = 120});
  EXPECT_EQ(test::message_of([&] { check_decay(ctx, moments, as_layer(wider.view())); }),
            "check_decay: moments of head size 3 for queries and keys of size 4");
  rows.k[3 * 5 + 1] = std::nan("");
  EXPECT_QKGEOM_ERROR("of k is not finite", decay_of(ctx, {model}, as_layer(rows.view()), "exact"));
}

}  // namespace
