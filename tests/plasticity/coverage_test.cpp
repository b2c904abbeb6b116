// SPDX-License-Identifier: MIT
// Coverage of errors over 200 seeds: the sampling error against the exact mean of the same data, the errors over
// documents against the population's mean.
#include "qkgeom/plasticity/profile.hpp"
#include "qkgeom/stats/shape.hpp"
#include "tests/common/on_cpu.hpp"

namespace {

using namespace qkgeom;
using test::ctx;

constexpr int n_seeds = 200;
constexpr index_t context = 1000;
constexpr std::size_t seen_bucket = 4;

/// Distribution of (estimate - truth) / error over all seeds.
struct studentised {
  std::vector<double> values;
  void add(double estimate, double truth, double error) { values.push_back((estimate - truth) / error); }
  double deviation() const { return shape_of(values).deviation; }
  void expect_honest(const char* what) const {
    SCOPED_TRACE(what);
    ASSERT_EQ(values.size(), std::size_t{n_seeds});
    EXPECT_LT(std::fabs(shape_of(values).mean), 0.25);
    EXPECT_GT(deviation(), 0.85);
    EXPECT_LT(deviation(), 1.15);
    const auto within = std::ranges::count_if(values, [](double v) { return std::fabs(v) < 1.959963984540054; });
    EXPECT_GE(within, 0.90 * n_seeds);
    EXPECT_LE(within, 0.98 * n_seeds);
  }
};

planted_head spec_of(index_t documents, std::uint64_t seed) {
  planted_head spec{.dim = 4, .context_length = context, .documents = documents, .rows = 12, .seed = seed};
  spec.mean_q = {1.5, 0.3, 0, 0};
  spec.drift_q = {0, 0, 0, 1e-3};
  return spec;
}

/// Keys whose first coordinate, that of the queries' mean, is scaled by a factor per document: pairs of one document
/// are alike.
planted_rows<double> documents(index_t documents, std::uint64_t seed) {
  auto rows = plant<double>(spec_of(documents, seed));
  const random_stream stretch{seed, 0, 2, draw::planted};
  for (std::size_t i = 0; i < rows.k_document.size(); ++i)
    rows.k[4 * i] *= 2.5 * stretch.uniform(static_cast<std::uint64_t>(rows.k_document[i]));
  return rows;
}

query_model fixed_model() {
  const auto rows = plant<double>(spec_of(200, 999));
  return test::model_of(rows.view(), 200, context);
}

TEST(coverage, sampling_error_against_all_pairs_of_the_same_data) {
  const auto rows = documents(40, 7);
  const auto model = fixed_model();
  const auto exact = plasticity_profile(ctx, model, rows.view());
  studentised t;
  for (int s = 0; s < n_seeds; ++s) {
    const auto p =
        plasticity_profile(ctx, model, rows.view(), sampled{.n = 200, .seed = static_cast<std::uint64_t>(s)});
    ASSERT_EQ(p.buckets[seen_bucket].drawn, 200);
    t.add(p.buckets[seen_bucket].plasticity, exact.buckets[seen_bucket].plasticity,
          p.buckets[seen_bucket].sampling_error);
  }
  t.expect_honest("sampling error");
}

TEST(coverage, errors_over_documents_against_the_population) {
  const auto model = fixed_model();
  const profile_options options{.heatmap = true, .terms = true};
  const auto everyone = documents(20000, 12345);
  const auto population = plasticity_profile(ctx, model, everyone.view(), all_pairs{}, options);
  const double truth = population.buckets[seen_bucket].plasticity;
  const double mean_z = term_profile(population, pair_term::abs_z).buckets[seen_bucket].plasticity;
  const double cell = cell_mean(population.heatmap, 1, 2).value;
  studentised drawn, all, term, in_cell, without_documents;
  for (int s = 0; s < n_seeds; ++s) {
    const auto rows = documents(40, static_cast<std::uint64_t>(s));
    const auto few = plasticity_profile(ctx, model, rows.view(), sampled{.n = 400, .seed = 1});
    drawn.add(few.buckets[seen_bucket].plasticity, truth, few.buckets[seen_bucket].standard_error);
    without_documents.add(few.buckets[seen_bucket].plasticity, truth, few.buckets[seen_bucket].sampling_error);
    const auto p = plasticity_profile(ctx, model, rows.view(), all_pairs{}, options);
    all.add(p.buckets[seen_bucket].plasticity, truth, p.buckets[seen_bucket].standard_error);
    const auto z = term_profile(p, pair_term::abs_z);
    term.add(z.buckets[seen_bucket].plasticity, mean_z, z.buckets[seen_bucket].standard_error);
    const auto c = cell_mean(p.heatmap, 1, 2);
    in_cell.add(c.value, cell, c.error);
  }
  drawn.expect_honest("drawn pairs");
  all.expect_honest("all pairs");
  term.expect_honest("a part");
  in_cell.expect_honest("a heatmap cell");
  EXPECT_GT(without_documents.deviation(), 1.5);  // pairs of one document are not independent
}

}  // namespace
