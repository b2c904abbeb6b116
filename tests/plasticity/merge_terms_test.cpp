// SPDX-License-Identifier: MIT
// Terms, cells and drawn pairs of two captures merged, against those of one capture of both.
#include <gtest/gtest.h>

#include <cmath>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/planted/heads.hpp"
#include "qkgeom/plasticity/merge.hpp"
#include "qkgeom/plasticity/pair_terms.hpp"

namespace {

using namespace qkgeom;

/// Keys of documents [first, last), of 24 rows each.
head_view<double> documents(const planted_rows<double>& rows, index_t first, index_t last) {
  auto v = rows.view();
  const index_t n = 24 * (last - first), begin = 24 * first;
  v.k = {rows.k.data() + begin * rows.dim, n, rows.dim, rows.dim};
  v.k_position = {rows.k_position.data() + begin, n};
  v.k_document = {rows.k_document.data() + begin, n};
  return v;
}

struct merge_terms : testing::Test {
  cpu_context ctx{{.threads = 2}};
  planted_rows<double> rows = plant<double>(
      {.dim = 5, .context_length = 512, .documents = 9, .rows = 24, .seed = 4, .drift_q = {3e-3, 0, 0, 0, 0}});
  query_model model = fit_queries(ctx, accumulate(ctx, rows.view(), uniform_buckets{128}, {.context_length = 512}));

  template <class Pairs>
  plasticity_profile_result profile(index_t first, index_t last, const Pairs& pairs) {
    return plasticity_profile(ctx, model, documents(rows, first, last), pairs, {.heatmap = true, .terms = true});
  }
};

TEST_F(merge_terms, of_two_captures_are_those_of_both) {
  const auto whole = profile(0, 9, all_pairs{});
  for (const index_t cut : {1, 4, 8}) {
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
