// SPDX-License-Identifier: MIT
// Pair terms by query bucket and by heatmap cell, with errors, against every pair written out.
#include "tests/backend/compared_contexts.hpp"
#include "tests/plasticity/pair_oracle.hpp"

namespace {

using namespace qkgeom;
using test::ctx;
using test::oracle_mean;
using test::oracle_pair;

constexpr std::array<pair_term, pair_terms> terms{
    pair_term::later_wins,       pair_term::drift_mean,     pair_term::content_mean, pair_term::drift_variance,
    pair_term::content_variance, pair_term::cross_variance, pair_term::abs_z};

struct shape {
  index_t dim, documents, rows;
  bool windowed, across;
};

class parts_of : public testing::TestWithParam<shape> {
 protected:
  planted_rows<double> rows;
  head_view<double> head;

  void SetUp() override {
    const auto s = GetParam();
    planted_head spec{.dim = s.dim, .context_length = 1000, .documents = s.documents, .rows = s.rows, .seed = 3};
    const auto d = static_cast<std::size_t>(s.dim);
    spec.drift_q.assign(d, 1e-3);
    spec.mean_q.assign(d, 0.2);
    spec.drift_k.assign(d, 1e-3);
    spec.mean_k.assign(d, 20.0);
    spec.root_q.assign(d * d, 0.1);
    for (std::size_t c = 0; c < d; ++c) spec.root_q[c * d + c] = 1;
    rows = plant<double>(spec);
    head = rows.view();
    if (s.windowed) head.window = 500;
  }
  query_model model(covariance_kind kind) { return test::model_of(head, 150, 1000, kind); }
};
INSTANTIATE_TEST_SUITE_P(shapes, parts_of,
                         testing::Values(shape{1, 4, 10, false, false}, shape{2, 4, 12, false, true},
                                         shape{7, 9, 21, true, false}, shape{9, 3, 70, false, false}));

TEST_P(parts_of, buckets_equal_brute_force) {
  for (const auto kind : all_covariance_kinds) {
    SCOPED_TRACE(name_of(kind));
    const auto m = model(kind);
    const bool across = GetParam().across;
    const auto got = plasticity_profile(ctx, m, head, all_pairs{.across_documents = across}, {.terms = true});
    std::map<index_t, std::array<oracle_mean, 1 + pair_terms>> want;
    test::for_each_pair(m, head, across, {}, [&](const oracle_pair& p) {
      for (std::size_t v = 0; v < p.value.size(); ++v) want[p.bucket][v].add(p.group, p.value[v], 1);
    });
    ASSERT_GE(want.size(), 4u);
    for (const auto term : terms) {
      SCOPED_TRACE(name_of(term));
      const auto profile = term_profile(got, term);
      for (const auto& [b, w] : want) {
        const auto& bucket = profile.buckets[b];
        const auto& mean = w[1 + static_cast<std::size_t>(term)];
        EXPECT_NEAR(bucket.plasticity, mean.mean(), 1e-9 * (1 + std::fabs(mean.mean())));
        EXPECT_EQ(bucket.pairs, mean.pairs);
        if (across || mean.by_document.size() < 3) continue;
        EXPECT_NEAR(bucket.standard_error, mean.jackknife(), 1e-8 * (1 + mean.jackknife()));
      }
      EXPECT_TRUE(std::isnan(profile.buckets[0].plasticity));
    }
  }
}

// sigma_pos^2 of all queries; under `joint` the variance of eps in the bucket, which v is made of there.
TEST_P(parts_of, drift_variance_is_that_of_the_model_s_first_coordinate) {
  const auto mean_of = [&](const query_model& m) {
    const auto p = plasticity_profile(ctx, m, head, all_pairs{}, {.terms = true});
    return term_profile(p, pair_term::drift_variance).buckets[5].plasticity;
  };
  const auto diagonal = model(covariance_kind::diagonal), full = model(covariance_kind::full),
             joint = model(covariance_kind::joint);
  EXPECT_NEAR(mean_of(full) / mean_of(diagonal), 1, 1e-9);
  EXPECT_EQ(diagonal.bucket[5].variance[0], diagonal.sigma2_pos);
  EXPECT_NEAR(mean_of(joint) / mean_of(diagonal), joint.bucket[5].variance[0] / diagonal.sigma2_pos, 1e-9);
  EXPECT_GT(std::fabs(joint.bucket[5].variance[0] / diagonal.sigma2_pos - 1), 1e-3);
}

TEST_P(parts_of, cells_equal_brute_force) {
  const auto m = model(covariance_kind::joint);
  const bool across = GetParam().across;
  const index_t cell = 130;
  const auto got = plasticity_profile(ctx, m, head, all_pairs{.across_documents = across},
                                      {.heatmap = true, .heatmap_cell = cell, .terms = true});
  std::map<std::pair<index_t, index_t>, std::array<oracle_mean, 1 + pair_terms>> want;
  test::for_each_pair(m, head, across, {}, [&](const oracle_pair& p) {
    const auto back = static_cast<index_t>(std::floor((p.keys.tau - 0.5 * (p.keys.t_i + p.keys.t_j)) / cell));
    for (std::size_t v = 0; v < p.value.size(); ++v)
      want[{p.keys.distance() / cell, back}][v].add(p.group, p.value[v], 1);
  });
  std::size_t filled = 0;
  for (const double w : got.heatmap.terms.weight) filled += w > 0;
  EXPECT_EQ(filled, want.size());
  for (const auto& [at, w] : want) {
    const auto check = [&](const estimate& x, const oracle_mean& mean) {
      EXPECT_NEAR(x.value, mean.mean(), 1e-9 * (1 + std::fabs(mean.mean())));
      if (mean.by_document.size() < 3) {
        EXPECT_TRUE(std::isnan(x.error));
        return;
      }
      EXPECT_NEAR(x.error, mean.infinitesimal_jackknife(), 1e-6 * (1 + mean.mean()));
    };
    check(cell_mean(got.heatmap, at.first, at.second), w[0]);
    EXPECT_NEAR(got.heatmap.mean(at.first, at.second), w[0].mean(), 1e-6);
    for (const auto term : terms)
      check(cell_mean(got.heatmap, at.first, at.second, term), w[1 + static_cast<std::size_t>(term)]);
  }
}

TEST_P(parts_of, weights_and_documents_that_weigh_the_same_hold_for_parts_too) {
  const auto m = model(covariance_kind::full);
  const auto weight = [](const key_pair& p) { return p.distance() > 100 ? 0.01 * static_cast<double>(p.t_j) : 0.0; };
  const auto got = plasticity_profile(ctx, m, head, weighted_pairs{.weight_of = weight, .documents_weigh_same = true},
                                      {.terms = true});
  std::map<index_t, std::map<std::int32_t, std::pair<double, double>>> sums;
  test::for_each_pair(m, head, false, {}, [&](const oracle_pair& p) {
    const double w = weight(p.keys);
    if (w == 0) return;
    sums[p.bucket][p.group].first += w * p.value[1];
    sums[p.bucket][p.group].second += w;
  });
  const auto later = term_profile(got, pair_term::later_wins);
  for (const auto& [b, documents] : sums) {
    oracle_mean mean;
    for (const auto& [e, x] : documents) mean.add(e, x.first / x.second, 1);
    EXPECT_NEAR(later.buckets[b].plasticity, mean.mean(), 1e-12);
    if (mean.by_document.size() < 3) continue;
    EXPECT_NEAR(later.buckets[b].standard_error, mean.jackknife(), 1e-12);
  }
}

TEST_P(parts_of, asking_for_them_changes_nothing_else) {
  const auto m = model(covariance_kind::diagonal);
  const auto with = plasticity_profile(ctx, m, head, all_pairs{}, {.heatmap = true, .terms = true});
  const auto without = plasticity_profile(ctx, m, head, all_pairs{}, {.heatmap = true});
  EXPECT_EQ(with.heatmap.sum, without.heatmap.sum);
  for (std::size_t b = 1; b < with.buckets.size(); ++b)
    EXPECT_EQ(with.buckets[b].document_sum, without.buckets[b].document_sum);
  EXPECT_THROW(term_profile(without, pair_term::abs_z), error);
  EXPECT_THROW(cell_mean(without.heatmap, 0, 0), error);
  EXPECT_THROW(cell_mean(with.heatmap, 0, with.heatmap.width), error);
}

TEST(terms, of_a_large_group_do_not_depend_on_the_thread_count_and_add_up_by_document) {
  const auto rows = plant<float>({.dim = 8, .context_length = 4000, .documents = 3, .rows = 1400, .seed = 2});
  cpu_context one{{.threads = 1}}, three{{.threads = 3}};
  const auto head = rows.view();
  const auto m = test::model_of(head, 2000, 4000, covariance_kind::joint);
  const profile_options options{.heatmap = true, .terms = true};
  const auto a = plasticity_profile(one, m, head, all_pairs{}, options);
  const auto b = plasticity_profile(three, m, head, all_pairs{}, options);
  test::expect_same(a, b);
  std::vector<double> square(a.heatmap.terms.square.size());
  for (index_t e = 0; e < 3; ++e) {  // each document alone has the sums of the whole
    auto term = head;
    term.k = {head.k.data + e * 1400 * 8, 1400, 8, 8};
    term.k_position = {head.k_position.data + e * 1400, 1400};
    term.k_document = {head.k_document.data + e * 1400, 1400};
    const auto p = plasticity_profile(three, m, term, all_pairs{}, options);
    for (std::size_t v = 0; v < pair_terms; ++v)
      EXPECT_EQ(p.buckets[1].term_sum[v], a.buckets[1].term_sum[v * 3 + static_cast<std::size_t>(e)]);
    for (std::size_t i = 0; i < square.size(); ++i) square[i] += p.heatmap.terms.square[i];
  }
  for (std::size_t i = 0; i < square.size(); ++i)
    EXPECT_NEAR(square[i], a.heatmap.terms.square[i], 1e-12 * (1 + square[i]));
}

/// Keys that drift along the queries' mean: later keys win with a probability of closed form.
TEST(terms, later_keys_win_where_the_bias_says_so) {
  for (const double sign : {1.0, -1.0}) {
    planted_head spec{.dim = 3, .context_length = 1000, .documents = 30, .rows = 40, .seed = 8};
    spec.mean_q = {0.5, 0, 0};
    spec.drift_k = {sign * 4e-3, 0, 0};
    spec.root_k.assign(9, 0.0);  // keys are their drift alone: z = 0.5 / 1 for every pair
    const auto rows = plant<double>(spec);
    const auto m = test::model_of(rows.view(), 250, 1000, covariance_kind::joint);
    const auto later =
        term_profile(plasticity_profile(ctx, m, rows.view(), all_pairs{}, {.terms = true}), pair_term::later_wins);
    for (std::size_t b = 1; b < 4; ++b)
      EXPECT_NEAR(later.buckets[b].plasticity, sign > 0 ? 0.6915 : 0.3085, 0.05);  // Phi(0.5)
  }
}

}  // namespace
