// SPDX-License-Identifier: MIT
// Merged pair sums, terms, drawn pairs and observed queries of the shards of a capture against those of the whole.

#include "tests/backend/compared_contexts.hpp"
#include "tests/common/on_cpu.hpp"

namespace qkgeom::detail {
// A profile's heatmaps are of one width, so that `merge` reaches this by captures of several lengths alone.
void merge_heatmap(plasticity_heatmap& into, const plasticity_heatmap& from);
}  // namespace qkgeom::detail

namespace {

using namespace qkgeom;
using test::ctx;

planted_rows<float> rows_of(std::uint64_t seed, index_t documents) {
  planted_head spec{.dim = 8, .context_length = 512, .documents = documents, .rows = 24, .seed = seed};
  spec.mean_q = {1, 0.5, 0, 0, -1, 0, 0, 0.25};
  spec.drift_q = {0.004, 0, 0, 0.002, 0, 0, 0, 0};
  spec.drift_k = {0.002, 0, 0, 0, 0, 0, 0, 0};
  return plant<float>(spec);
}

/// Rows of documents [first, last) of a planted head.
template <class T>
layer_view<T> documents(const planted_rows<T>& rows, std::int32_t first, std::int32_t last) {
  auto v = as_layer(rows.view());
  const auto cut = [&](auto& x, auto& position, auto& document) {
    const index_t begin = std::lower_bound(document.begin(), document.end(), first) - document.begin();
    const index_t end = std::lower_bound(document.begin(), document.end(), last) - document.begin();
    x.data += begin * x.row_stride;
    x.rows = end - begin;
    position = {position.data + begin, end - begin};
    document = {document.data + begin, end - begin};
  };
  cut(v.q, v.q_position, v.q_document);
  cut(v.k, v.k_position, v.k_document);
  return v;
}

void expect_equal(const plasticity_profile_result& a, const plasticity_profile_result& b) {
  EXPECT_EQ(a.documents, b.documents);
  EXPECT_LT(test::distance(a, b), 1e-12);
  EXPECT_LT(test::distance_of_errors(a, b), 1e-12);
}

/// Profiles of documents of a planted head under the query models of all its rows.
struct fitted_head {
  planted_rows<float> rows;
  query_model_options kind{};
  index_t bucket = 64;
  std::vector<query_model> models =
      fit_queries(ctx, accumulate(ctx, as_layer(rows.view()), uniform_buckets{bucket}, {.context_length = 512}), kind);

  template <class Pairs = all_pairs>
  plasticity_profile_result profile(std::int32_t first, std::int32_t last, const profile_options& options = {},
                                    const Pairs& pairs = {}) {
    return plasticity_profile(ctx, models, documents(rows, first, last), pairs, options)[0];
  }
};

TEST(merge, profiles_of_any_parts_are_the_profile_of_all) {
  fitted_head head{rows_of(1, 7)};
  const profile_options options{.heatmap = true, .heatmap_cell = 64, .precision = pair_precision::f64};
  const auto want = head.profile(0, 7, options);
  for (const std::vector<std::int32_t>& cuts : {std::vector<std::int32_t>{0, 3, 7}, {0, 1, 2, 3, 4, 5, 6, 7}}) {
    std::optional<plasticity_profile_result> all;
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      auto term = head.profile(cuts[c], cuts[c + 1], options);
      all = all ? merge(std::move(*all), term) : std::move(term);
    }
    expect_equal(*all, want);
  }
}

TEST(merge, a_part_without_keys_changes_nothing) {
  fitted_head head{rows_of(1, 3)}, other{.rows = rows_of(1, 3), .bucket = 128};
  const profile_options options{.heatmap = true, .heatmap_cell = 64, .terms = true};
  const auto want = head.profile(0, 3, options), none = head.profile(3, 4, options);
  EXPECT_TRUE(none.documents.empty());
  for (const auto& all : {merge(want, none), merge(none, want)}) {
    expect_equal(all, want);
    for (std::size_t b = 0; b < want.buckets.size(); ++b) EXPECT_EQ(all.buckets[b].term_sum, want.buckets[b].term_sum);
  }
  EXPECT_THROW(merge(want, other.profile(3, 4, options)), error);
}

TEST(merge, weighs_documents_the_same_over_parts_too) {
  fitted_head head{rows_of(2, 5)};
  const auto profile = [&](std::int32_t first, std::int32_t last) {
    return head.profile(first, last, {.precision = pair_precision::f64}, prefix_uniform{});
  };
  expect_equal(merge(profile(0, 2), profile(2, 5)), profile(0, 5));
}

TEST(merge, refuses_sums_under_another_model) {
  const auto profile = [](std::uint64_t seed, covariance_kind kind) {
    return fitted_head{rows_of(seed, 4), {kind}}.profile(0, 4);
  };
  const auto a = profile(3, covariance_kind::diagonal);
  EXPECT_THROW(merge(a, profile(4, covariance_kind::diagonal)), error);
  EXPECT_THROW(merge(a, profile(3, covariance_kind::joint)), error);
  EXPECT_NO_THROW(merge(a, profile(3, covariance_kind::diagonal)));
}

TEST(merge, folding_documents_keeps_means_and_bounds_what_is_kept) {
  fitted_head head{rows_of(5, 13)};
  const auto before = head.profile(0, 13);
  auto after = before;
  fold_documents(after, 4);
  EXPECT_EQ(after.documents, (std::vector<std::int32_t>{0, 4, 8, 12}));
  for (std::size_t b = 0; b < before.buckets.size(); ++b) {
    EXPECT_EQ(after.buckets[b].document_sum.size(), 4u);
    if (std::isnan(before.buckets[b].plasticity)) continue;
    EXPECT_NEAR(after.buckets[b].plasticity, before.buckets[b].plasticity, 1e-14);
    EXPECT_GT(after.buckets[b].standard_error, 0.2 * before.buckets[b].standard_error);
    EXPECT_LT(after.buckets[b].standard_error, 5 * before.buckets[b].standard_error);
  }
  auto in_two = head.profile(0, 6);
  auto rest = head.profile(6, 13);
  fold_documents(in_two, 4);
  fold_documents(rest, 4);  // the block 4..7 is in both
  expect_equal(merge(in_two, rest), after);
}

TEST(observed_queries, are_the_same_for_every_split_and_never_more_than_asked_for) {
  const auto rows = rows_of(6, 20);
  const auto edges = uniform_buckets{64}.edges(512);
  observed_queries<float> at_once(edges, 16, 9), in_terms(edges, 16, 9), other_seed(edges, 16, 10);
  at_once.add(as_layer(rows.view()));
  other_seed.add(as_layer(rows.view()));
  for (std::int32_t e = 0; e < 20; ++e) in_terms.add(documents(rows, e, e + 1));
  const auto a = at_once.take(), b = in_terms.take(), c = other_seed.take();
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.bucket, b.bucket);
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.mean_position, b.mean_position);
  EXPECT_NE(a.values, c.values);
  for (std::size_t i = 0; i < a.bucket.size(); ++i) {
    const random_stream stream{9, 0, static_cast<std::uint32_t>(i), draw::query_subset};
    std::vector<std::pair<double, index_t>> draws;
    for (std::size_t r = 0; r < rows.q_position.size(); ++r)
      if (edges(rows.q_position[r]) == static_cast<index_t>(i)) draws.emplace_back(stream.uniform(r), r);
    std::sort(draws.begin(), draws.end());
    std::set<index_t> smallest, chosen;
    for (std::size_t n = 0; n < 16; ++n) smallest.insert(draws.at(n).second);
    for (const index_t n : a.bucket[i]) chosen.insert(a.row[n]);
    EXPECT_EQ(chosen, smallest);
    EXPECT_EQ(a.bucket[i].size(), 16u);
    EXPECT_GT(a.count[i], 40);
  }
  // A copy would view the values of the original.
  static_assert(!std::is_copy_constructible_v<observed_queries<float>::rows>);
  static_assert(!std::is_copy_assignable_v<observed_queries<float>::rows>);
  in_terms.add(documents(rows, 0, 1));
  auto taken = in_terms.take();
  const auto moved = std::move(taken);
  EXPECT_EQ(moved.q.data, moved.values.data());
}

TEST(merge, observed_profiles_of_parts_are_the_profile_of_all) {
  const auto rows = rows_of(7, 9);
  const auto whole = as_layer(rows.view());
  const auto want = empirical_profile(ctx, whole, uniform_buckets{64}, 512)[0];
  observed_queries<float> queries(uniform_buckets{64}.edges(512), 4096, 0);
  for (const std::int32_t e : {0, 3, 6}) queries.add(documents(rows, e, e + 3));
  const auto seen = queries.take();
  std::optional<plasticity_profile_result> all;
  for (const std::int32_t e : {0, 3, 6}) {
    auto term = empirical_profile(ctx, seen, documents(rows, e, e + 3), queries.edges())[0];
    all = all ? merge(std::move(*all), term) : std::move(term);
  }
  expect_equal(*all, want);
}

/// Terms, cells and drawn pairs of two captures merged, against those of one capture of both.
struct merge_terms : testing::Test {
  planted_rows<double> rows = plant<double>(
      {.dim = 5, .context_length = 512, .documents = 9, .rows = 24, .seed = 4, .drift_q = {3e-3, 0, 0, 0, 0}});
  query_model model = test::model_of(rows.view(), 128, 512);

  template <class Pairs>
  plasticity_profile_result profile(std::int32_t first, std::int32_t last, const Pairs& pairs) {
    return plasticity_profile(ctx, model, documents(rows, first, last).head(0), pairs,
                              {.heatmap = true, .terms = true});
  }
};

TEST_F(merge_terms, of_two_captures_are_those_of_both) {
  const auto whole = profile(0, 9, all_pairs{});
  for (const std::int32_t cut : {1, 4, 8}) {
    const auto both = merge(profile(0, cut, all_pairs{}), profile(cut, 9, all_pairs{}));
    for (int p = 0; p < pair_terms; ++p) {
      const auto a = term_profile(both, static_cast<pair_term>(p)), b = term_profile(whole, static_cast<pair_term>(p));
      for (std::size_t i = 1; i < a.buckets.size(); ++i) {
        EXPECT_NEAR(a.buckets[i].plasticity, b.buckets[i].plasticity, 1e-12);
        EXPECT_NEAR(a.buckets[i].standard_error, b.buckets[i].standard_error, 1e-12);
      }
    }
    ASSERT_EQ(both.heatmap.width, whole.heatmap.width);
    int cells = 0;
    for (index_t i = 0; i < whole.heatmap.width; ++i)
      for (index_t j = 0; j < whole.heatmap.width; ++j) {
        const auto a = cell_mean(both.heatmap, i, j, pair_term::content_variance),
                   b = cell_mean(whole.heatmap, i, j, pair_term::content_variance);
        if (std::isnan(b.error)) continue;
        EXPECT_NEAR(a.value, b.value, 1e-12);
        EXPECT_NEAR(a.error, b.error, 1e-9);
        ++cells;
      }
    EXPECT_GT(cells, 5);
  }
}

TEST_F(merge_terms, a_narrower_heatmap_goes_into_a_wider_one) {
  const auto term = profile(0, 4, all_pairs{});
  auto narrow = term.heatmap;
  for (const index_t width : {term.heatmap.width, term.heatmap.width + 2}) {
    plasticity_heatmap wide{narrow.cell, width, {}, {}, blank_cells(static_cast<std::size_t>(width * width))};
    wide.sum.resize(width * width);
    wide.weight.resize(wide.sum.size());
    auto there = wide, back = narrow;
    detail::merge_heatmap(there, narrow);
    detail::merge_heatmap(back, wide);
    EXPECT_EQ(there.terms.sum, back.terms.sum);
    EXPECT_EQ(cell_mean(there, 0, 1).value, cell_mean(narrow, 0, 1).value);
    EXPECT_EQ(cell_mean(there, 0, 1, pair_term::abs_z).error, cell_mean(narrow, 0, 1, pair_term::abs_z).error);
  }
}

TEST_F(merge_terms, drawn_pairs_keep_their_sampling_error) {
  const auto a = profile(0, 4, sampled{.n = 100, .seed = 1}), b = profile(4, 9, sampled{.n = 200, .seed = 2});
  const auto both = merge(a, b);
  for (std::size_t i = 2; i < both.buckets.size(); ++i) {
    const auto &x = a.buckets[i], &y = b.buckets[i], &z = both.buckets[i];
    const auto n = static_cast<double>(x.pairs), m = static_cast<double>(y.pairs);
    EXPECT_EQ(z.drawn, 300);
    EXPECT_NEAR(z.plasticity, (n * x.plasticity + m * y.plasticity) / (n + m), 1e-12);
    EXPECT_NEAR(z.sampling_error, std::hypot(n * x.sampling_error, m * y.sampling_error) / (n + m), 1e-12);
    EXPECT_GT(z.sampling_error, 0);
  }
}

TEST_F(merge_terms, folded_documents_keep_the_means_of_parts_and_the_sampling_error) {
  const auto whole = profile(0, 9, sampled{.n = 100, .seed = 3});
  auto folded = whole;
  fold_documents(folded, 3);
  ASSERT_EQ(folded.documents.size(), 3u);
  for (std::size_t i = 2; i < whole.buckets.size(); ++i) {
    EXPECT_EQ(folded.buckets[i].sampling_error, whole.buckets[i].sampling_error);
    EXPECT_NEAR(term_profile(folded, pair_term::later_wins).buckets[i].plasticity,
                term_profile(whole, pair_term::later_wins).buckets[i].plasticity, 1e-12);
  }
}

}  // namespace
