// SPDX-License-Identifier: MIT
// mpi_context, with threads in place of processes: any number of them gives every bit of one, whoever holds which
// document, and what the context behind it gives up to rounding.
#include "qkgeom/backend/mpi_context.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/geometry/complement.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/rotation.hpp"
#include "qkgeom/model/fit_checks.hpp"
#include "qkgeom/plasticity/bucket_table.hpp"
#include "qkgeom/plasticity/decay.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/plasticity/rounded_keys.hpp"
#include "qkgeom/plasticity/score_checks.hpp"
#include "qkgeom/rotary/planes.hpp"
#include "examples/plasticity/author_analysis.hpp"
#include "examples/drop_split/split_drop.hpp"
#include "tests/backend/spread_rows.hpp"
#include "tests/common/refusal.hpp"

namespace {

using namespace qkgeom;
using test::deal;
using test::holder;
using test::layer_of;
using test::layer_rows;
using test::of_layer;
using test::rows_of;

using test::spread_dim, test::spread_documents;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

const planted_rows<float>& all_rows() {
  static const auto rows = plant<float>(test::compared_head(spread_dim, spread_documents, 60, 0.2));
  return rows;
}

struct results {
  head_moments moments;
  pca_result pca;
  rotation_result rotation;
  plasticity_profile_result profile, weighted, observed;
};

template <class Context>
results analyse_head(Context& ctx, const head_view<float>& head) {
  results r;
  r.moments = test::moments_of(ctx, head);
  r.pca = pca(ctx, r.moments);
  r.rotation = planar_rotation(ctx, r.moments);
  const auto model = fit_queries(ctx, r.moments, {.covariance = covariance_kind::joint});
  r.profile = plasticity_profile(ctx, model, head, all_pairs{}, {.heatmap = true, .terms = true});
  r.weighted = plasticity_profile(ctx, model, head, test::odd_weight{}, {.heatmap = true, .heatmap_cell = 70});
  observed_queries<float> queries(bucket_edges(r.moments.buckets), 500, 3);
  const auto layer = as_layer(all_rows().view());
  queries.add(layer);
  r.observed = std::move(empirical_profile(ctx, queries.take(), as_layer(head), r.moments.buckets)[0]);
  return r;
}

/// Every number, as text of its bits.
std::string bits(const std::vector<profile_bucket>& several) {
  std::string all;
  for (const auto& b : several)
    all += bytes_of(b.plasticity) + bytes_of(b.standard_error) + bytes_of(b.document_sum) +
           bytes_of(b.document_weight) + bytes_of(b.term_sum) + bytes_of(b.pairs) + bytes_of(b.drawn) +
           bytes_of(b.sampling_error) + bytes_of(b.queries_used);
  return all;
}
std::string bits(const plasticity_profile_result& p) {
  return bytes_of(p.documents) + bytes_of(p.heatmap.sum) + bytes_of(p.heatmap.weight) + bytes_of(p.heatmap.terms) +
         bits(p.buckets);
}
std::string bits(const std::vector<plasticity_profile_result>& heads) {
  std::string all;
  for (const auto& p : heads) all += bits(p);
  return all;
}
std::string bits(const results& r) {
  std::string all = bytes_of(std::vector<side_moments>{r.moments.q, r.moments.k});
  for (const auto* x : {&r.pca.explained_variance, &r.pca.components, &r.pca.r_q, &r.pca.r_k, &r.rotation.drift_axis,
                        &r.rotation.separation_axis})
    all += bytes_of(*x);
  return all + bits(r.profile) + bits(r.weighted) + bits(r.observed);
}

/// What each process gets.
std::vector<results> together(int processes, deal how) {
  test::threads_as_processes group_of_threads(processes);
  std::vector<results> found(processes);
  EXPECT_THAT(group_of_threads.run([&](process_group& group) {
    const auto own = rows_of(all_rows(), [&](std::int32_t e) { return holder(how, processes, e) == group.rank(); });
    cpu_context cpu{{.threads = 1}};
    mpi_context ctx(cpu, group);
    found[group.rank()] = analyse_head(ctx, own.view());
  }),
              Each(IsEmpty()));
  return found;
}

TEST(mpi_context, any_number_of_processes_gives_every_bit_of_one) {
  const std::string one = bits(together(1, deal::in_turn)[0]);
  for (const int n : {2, 3, 4, 7})
    for (const deal how : {deal::in_turn, deal::in_stretches, deal::all_to_the_last})
      for (const auto& found : together(n, how)) EXPECT_TRUE(bits(found) == one) << n << " processes";
}

TEST(mpi_context, is_near_the_context_behind_it) {
  const auto spread = together(3, deal::in_turn)[1];
  cpu_context cpu{{.threads = 1}};
  const auto whole = analyse_head(cpu, all_rows().view());
  // n rows of sizes up to s in f64: each of n additions rounds once, here and there, and so does each merge.
  const double n = static_cast<double>(spread_documents * 60), eps = std::numeric_limits<double>::epsilon();
  for (const auto& [a, b] : {std::pair{&spread.moments.q, &whole.moments.q}, {&spread.moments.k, &whole.moments.k}}) {
    ASSERT_EQ(a->bucket.size(), b->bucket.size());
    const auto near = [&](const row_moments& x, const row_moments& y) {
      EXPECT_EQ(x.count, y.count);
      for (index_t i = 0; i < spread_dim; ++i) {
        const double size = std::abs(y.mean[i]) + std::sqrt(y.xx_diagonal(i) / std::fmax(1, y.count));
        EXPECT_NEAR(x.mean[i], y.mean[i], 2 * n * eps * size);
        EXPECT_NEAR(x.xx_diagonal(i), y.xx_diagonal(i), 4 * n * eps * size * size * n);
        EXPECT_NEAR(x.xt[i], y.xt[i], 4 * n * eps * size * 1000 * n);
      }
    };
    near(a->total, b->total);
    for (std::size_t i = 0; i < a->bucket.size(); ++i) near(a->bucket[i], b->bucket[i]);
  }
  EXPECT_NEAR(spread.pca.r_q[0], whole.pca.r_q[0], 1e-12);
  EXPECT_LT(test::distance(spread.profile, whole.profile), 1e-6);  // pairs in f32
  for (std::size_t b = 1; b < whole.weighted.buckets.size(); ++b)  // sums of weights round too
    EXPECT_NEAR(spread.weighted.buckets[b].plasticity, whole.weighted.buckets[b].plasticity, 1e-6);
  EXPECT_LT(test::distance(spread.observed, whole.observed), 1e-6);
  EXPECT_LT(test::distance_of_errors(spread.profile, whole.profile), 1e-6);
  test::terms_agree(spread.profile, whole.profile, 1e-9);
}

const std::vector<query_model>& layer_models() {
  static const auto models = [] {
    cpu_context cpu{{.threads = 1}};
    return fit_queries(cpu, test::moments_of(cpu, layer_of(layer_rows())), {.covariance = covariance_kind::joint});
  }();
  return models;
}

/// Profiles over pairs that are not those of one document alone, to the last bit.
template <class Context>
std::string profiles_over_all_documents(Context& ctx, const layer_view<float>& layer) {
  const auto profile = [&](const auto& pairs, const profile_options& options) {
    return bits(plasticity_profile(ctx, layer_models(), layer, pairs, options));
  };
  return profile(sampled{.n = 100, .seed = 4}, {.heatmap = true, .terms = true}) +
         profile(sampled{.n = 100, .seed = 4, .across_documents = true}, {.terms = true}) +
         profile(all_pairs{.across_documents = true}, {.heatmap = true}) +
         profile(weighted_pairs{.weight_of = test::odd_weight{}, .across_documents = true}, {}) +
         bits(empirical_profile(ctx, layer, uniform_buckets{150}, 1000, {.max_queries = 50, .seed = 3})) +
         bits(empirical_profile(ctx, layer, uniform_buckets{150}, 1000, {.across_documents = true})) +
         bits(bucket_table(ctx, layer_models(), layer, sampled{.n = 40})[1].cells);
}

TEST(mpi_context, sends_as_often_with_more_processes_and_at_most_one_value_per_document) {
  std::map<int, index_t> calls, bytes;
  for (const int n : {2, 3, 7}) {
    test::threads_as_processes of_moments(n), of_profiles(n);
    of_moments.run([&](process_group& group) {
      const auto own = rows_of(all_rows(), [&](std::int32_t e) { return e % n == group.rank(); });
      cpu_context cpu{{.threads = 1}};
      mpi_context ctx(cpu, group);
      test::moments_of(ctx, own.view());
    });
    of_profiles.run([&](process_group& group) {
      const auto own = test::own_layer_rows(group, deal::in_turn);
      cpu_context cpu{{.threads = 1}};
      mpi_context ctx(cpu, group);
      profiles_over_all_documents(ctx, layer_of(own));
    });
    for (int r = 0; r < n; ++r) {
      const index_t texts = of_moments.sent()[r].texts + of_profiles.sent()[r].texts;
      EXPECT_EQ(calls.try_emplace(n, texts).first->second, texts);
    }
    for (int r = 1; r < n; ++r) bytes[n] += of_moments.sent()[r].bytes;
  }
  EXPECT_GT(calls[2], 0);
  EXPECT_EQ(calls[3], calls[2]);
  EXPECT_EQ(calls[7], calls[2]);
  // Moments of a document: 7 buckets and all rows, each d means, d covariances with t and d^2 of x, on each side.
  const index_t of_document = 2 * 8 * (3 + 2 * spread_dim + spread_dim * spread_dim + 3) * 8, small = 1000 * 7;
  EXPECT_LT(bytes[7], spread_documents * of_document + small);
  EXPECT_GT(bytes[7], bytes[2]);
}

/// What two processes throw.
std::vector<std::string> errors_of(const std::function<void(mpi_context<cpu_context>&, int)>& f) {
  test::threads_as_processes processes(2);
  return processes.run([&](process_group& group) {
    cpu_context cpu{{.threads = 1}};
    mpi_context ctx(cpu, group);
    f(ctx, group.rank());
  });
}

TEST(mpi_context, an_error_on_one_process_is_one_on_all) {
  const auto half = [](int rank) { return rows_of(all_rows(), [=](std::int32_t e) { return e % 2 == rank; }); };
  EXPECT_THAT(errors_of([&](auto& ctx, int rank) {
                auto own = half(rank);
                if (rank == 1) own.q[5] = std::numeric_limits<float>::quiet_NaN();
                test::moments_of(ctx, own.view());
              }),
              Each(HasSubstr("rank 1: q")));
  EXPECT_THAT(errors_of([&](auto& ctx, int) {
                const auto own = half(0);
                test::moments_of(ctx, own.view());
              }),
              Each(HasSubstr("two processes hold rows of q of document 0")));
  EXPECT_THAT(errors_of([&](auto& ctx, int rank) {
                auto own = half(rank);
                own.k_document.back() = own.k_document.front();
                test::moments_of(ctx, own.view());
              }),
              Each(HasSubstr("are not adjacent")));
  EXPECT_THAT(errors_of([&](auto& ctx, int rank) {
                const auto own = half(rank);
                accumulate(ctx, own.view(), uniform_buckets{150}, {.context_length = 1000 - 500 * rank});
              }),
              Each(HasSubstr("rank 1 has another shape of the rows or of the query buckets")));
  EXPECT_THAT(errors_of([&](auto& ctx, int rank) {
                const auto own = half(rank);
                auto layer = as_layer(own.view());
                if (rank == 1) layer.window = 100;
                score_checks(ctx, layer, uniform_buckets{150}, 1000);
              }),
              Each(HasSubstr("rank 1 has another heads or window of the layer")));
}

TEST(mpi_context, drawn_pairs_pairs_across_documents_and_observed_queries_are_those_of_one_context) {
  cpu_context cpu{{.threads = 1}};
  const auto whole = profiles_over_all_documents(cpu, layer_of(layer_rows()));
  const auto spread = [](auto& ctx, const auto& layer) { return profiles_over_all_documents(ctx, layer); };
  for (const int n : {1, 2, 3, 4, 7})
    for (const deal how : {deal::in_turn, deal::in_stretches, deal::all_to_the_last})
      for (const auto& found : of_layer(n, how, spread)) EXPECT_TRUE(found == whole) << n << " processes";
}

TEST(mpi_context, keys_of_more_than_a_megabyte_come_together_in_pieces) {
  const auto rows = plant<float>(test::compared_head(spread_dim, spread_documents, 4000, 0.2));
  ASSERT_GT(rows.k.size() * sizeof(float), 1u << 20);
  cpu_context cpu{{.threads = 1}};
  const auto model = fit_queries(cpu, test::moments_of(cpu, rows.view()));
  const auto whole = bits(plasticity_profile(cpu, model, rows.view(), sampled{.n = 50}));
  test::threads_as_processes processes(2);
  EXPECT_THAT(processes.run([&](process_group& group) {
    const auto own = rows_of(rows, [&](std::int32_t e) { return e % 2 == group.rank(); });
    cpu_context behind{{.threads = 1}};
    mpi_context ctx(behind, group);
    EXPECT_TRUE(bits(plasticity_profile(ctx, model, own.view(), sampled{.n = 50})) == whole);
  }),
              Each(IsEmpty()));
}

TEST(mpi_context, bucket_tables_are_those_of_one_process) {
  const auto cells = [](auto& ctx, const auto& layer) {
    return bucket_table(ctx, layer_models(), layer, all_pairs{}, {.keep_documents = true})[3].cells;
  };
  const auto table = [&](auto& ctx, const auto& layer) { return bits(cells(ctx, layer)); };
  const auto one = of_layer(1, deal::in_turn, table)[0];
  for (const int n : {2, 3, 4, 7})
    for (const auto& found : of_layer(n, deal::in_turn, table)) EXPECT_TRUE(found == one) << n << " processes";
  cpu_context cpu{{.threads = 1}};
  const auto whole = cells(cpu, layer_of(layer_rows()));
  of_layer(3, deal::in_turn, [&](auto& ctx, const auto& layer) {
    const auto spread = cells(ctx, layer);
    for (std::size_t c = 0; c < whole.size(); ++c) {
      EXPECT_EQ(spread.at(c).pairs, whole[c].pairs);
      EXPECT_EQ(std::isnan(spread[c].plasticity), std::isnan(whole[c].plasticity));
      for (std::size_t e = 0; e < whole[c].document_sum.size(); ++e)  // pairs in f32
        EXPECT_NEAR(spread[c].document_sum[e], whole[c].document_sum[e], 1e-6 * whole[c].document_weight[e]);
    }
    return std::string();
  });
}

/// Numbers of what sorts or looks up single rows or pairs, to the last bit.
template <class Context>
std::string looked_up(Context& ctx, const layer_view<float>& layer, const layer_moments& moments,
                      const std::vector<query_model>& models) {
  std::vector<double> found;
  const auto add = [&](std::initializer_list<double> numbers) { found.insert(found.end(), numbers); };
  const captured_rope rope{.style = "half", .rotary_dim = spread_dim, .inv_freq = {1, 0.3, 0.1, 0.03}};
  const auto planes = planar_rotation(ctx, moments);
  for (const auto& c : complement_planes(ctx, layer, moments, planes, {.permutations = 20}))
    for (const auto& plane : c.planes) add({plane.variance_share, plane.k.frequency, plane.q.frequency});
  for (const auto& d : check_decay(ctx, moments, layer)) add({d.full.pi_0.value, d.pooled.past.error});
  for (const auto& f : fit_checks(ctx, moments, layer)) add({f.r2_scalar, f.mae_proj, f.noise.ks_distance});
  for (const auto& s : score_checks(ctx, layer, uniform_buckets{150}, 1000)) add({s.all.ks_distance});
  const auto grid = uniform_buckets{150}.edges(1000);
  for (const auto& head : rounding_effects(ctx, layer, {cache_type::f16, cache_type::bf16}, grid, 1000))
    for (const auto& e : head) add({e.flipped.value, e.moved.error});
  for (const auto& head : planes_of(ctx, layer, rope, 1000))
    for (const auto& p : head.planes) add({p.concentration_q, p.variance.value, p.variance.error});
  for (const auto& split : split_drop(ctx, models, layer, 1000)) add({split.drop.error, split.cause[3].value});
  for (const auto& split : split_drop(ctx, models, layer, 1000, {.rotation = rope})) add({split.rest.value});
  const layer_names names{0, true, {0, 1, 2, 3}, {0, 1, 2}};
  for (const auto& head : author_layer(ctx, layer, names, grid)) add({head.overall.value, head.fit.r2_pos});
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_FALSE(std::isnan(found[i])) << i;
  return bytes_of(found);
}

TEST(mpi_context, what_looks_up_single_rows_or_pairs_gives_every_bit_of_one_context) {
  cpu_context cpu{{.threads = 1}};
  const auto layer = layer_of(layer_rows());
  const auto moments = test::moments_of(cpu, layer);
  const auto models = fit_queries(cpu, accumulate(cpu, layer, uniform_buckets{100}, {.context_length = 1000}));
  const auto whole = looked_up(cpu, layer, moments, models);
  const auto spread = [&](auto& ctx, const auto& own) { return looked_up(ctx, own, moments, models); };
  for (const int n : {1, 2, 3, 4, 7})
    for (const auto& found : of_layer(n, n % 2 ? deal::in_turn : deal::all_to_the_last, spread))
      EXPECT_TRUE(found == whole) << n << " processes";
}

TEST(mpi_context, observed_queries_must_be_the_same_on_all_processes) {
  EXPECT_THAT(errors_of([](auto& ctx, int rank) {
                const auto own = rows_of(all_rows(), [=](std::int32_t e) { return e % 2 == rank; });
                const auto layer = as_layer(own.view());
                observed_queries<float> queries(uniform_buckets{150}.edges(1000), 500, 3);
                queries.add(layer);
                empirical_profile(ctx, queries.take(), layer, queries.edges());
              }),
              Each(HasSubstr("rank 1 has another observed queries than rank 0")));
}

}  // namespace
