// SPDX-License-Identifier: MIT
// Pairs of keys per second for each kind of pair sum, as a share of what the best GEMM would allow at 2 d FLOP per
// pair. Rates are those of the fastest iteration; pairs i < j are counted once.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>

#include "bench/common/ceilings.hpp"
#include "bench/common/planted_layer.hpp"
#include "bench/common/sizes.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/plasticity/keys_by_document.hpp"
#include "qkgeom/plasticity/profile.hpp"

namespace {

using namespace qkgeom;

constexpr index_t context = 131072, buckets = 16;
constexpr auto everything = std::numeric_limits<std::int32_t>::max();

/// Rows of a head, and score distributions fitted to its queries.
template <class T>
struct pair_case {
  planted_rows<T> rows;
  keys_by_document groups;
  pair_problem problem;

  pair_case(index_t d, index_t documents, index_t keys, covariance_kind covariance, bool one_bucket) {
    planted_head head = bench::typical_head(d, context, 1);
    head.documents = documents;
    head.rows = keys;
    rows = plant<T>(head);
    cpu_context ctx{{.threads = 1}};
    const auto moments = accumulate(ctx, rows.view(), uniform_buckets{context / buckets}, {.context_length = context});
    const auto model = fit_queries(ctx, moments, {.covariance = covariance});
    problem.reflector = model.reflector;
    for (index_t b = 0; b < buckets; ++b) problem.distributions.push_back(scores_of(model, b, std::nullopt));
    if (one_bucket) {
      problem.distributions = {problem.distributions.back()};
      problem.distributions[0].before = everything;
    }
    groups = order_keys_by_document(rows.view().k_position, rows.view().k_document, false);
  }
};

template <class T = float>
const pair_case<T>& known_case(index_t d, index_t documents, index_t keys, covariance_kind covariance,
                               bool one_bucket) {
  static std::map<std::tuple<index_t, index_t, index_t, covariance_kind, bool>, pair_case<T>> cases;
  const auto key = std::make_tuple(d, documents, keys, covariance, one_bucket);
  auto at = cases.find(key);
  if (at == cases.end()) at = cases.emplace(key, pair_case<T>(d, documents, keys, covariance, one_bucket)).first;
  return at->second;
}

/// Runs `work`, which returns its number of pairs, and sets the counters from the fastest run.
template <class Work>
void rate_of(benchmark::State& state, double pairs_at_gemm_rate, Work&& work) {
  using clock = std::chrono::steady_clock;
  double best = 0;
  for (auto _ : state) {
    const auto start = clock::now();
    const double pairs = work();
    best = std::max(best, pairs / std::chrono::duration<double>(clock::now() - start).count());
  }
  state.counters["pairs_per_s"] = best;
  if (pairs_at_gemm_rate > 0) state.counters["share_of_gemm"] = best / pairs_at_gemm_rate;
}

double total(const std::vector<std::int64_t>& pairs) {
  double sum = 0;
  for (const auto n : pairs) sum += static_cast<double>(n);
  return sum;
}

template <class T>
void run_pairs(benchmark::State& state, const pair_case<T>& c, pair_request request) {
  const int threads = static_cast<int>(state.range(1));
  cpu_context ctx{{.threads = threads}};
  const auto layer = as_layer(c.rows.view());
  const auto& limit = bench::measured_ceilings(threads);
  const auto d = static_cast<double>(layer.k.dim);
  const bool f64 = request.precision == pair_precision::f64;
  rate_of(state, f64 ? limit.pair_rate_f64(d) : limit.pair_rate(d), [&] {
    const auto sums = ctx.gaussian_pairs(layer.k, c.groups, {c.problem}, request);
    benchmark::DoNotOptimize(sums[0].sum[0]);
    return total(sums[0].pairs);
  });
}

/// One group of 4096 keys of type T under one query bucket.
template <class T>
void one_group(benchmark::State& state, T, covariance_kind covariance, pair_precision precision) {
  run_pairs(state, known_case<T>(state.range(0), 1, 4096, covariance, true), {{}, precision, 0});
}

/// The same with a heatmap, whose cells are 8192 tokens wide.
void one_group_heatmap(benchmark::State& state) {
  run_pairs(state, known_case(state.range(0), 1, 4096, covariance_kind::diagonal, true),
            {{}, pair_precision::f32, context / buckets});
}

/// 500 groups of 16 keys under 16 query buckets: a head of a sampled capture.
void small_groups(benchmark::State& state, covariance_kind covariance, bool heatmap) {
  run_pairs(state, known_case(state.range(0), 500, 16, covariance, false),
            {{}, pair_precision::f32, heatmap ? context / buckets : 0});
}

/// The same head under observed queries, 500 per bucket. Without a share of GEMM: a pair is 500 comparisons.
void empirical(benchmark::State& state) {
  const auto& c = known_case(state.range(0), 500, 16, covariance_kind::diagonal, false);
  cpu_context ctx{{.threads = static_cast<int>(state.range(1))}};
  rate_of(state, 0, [&] {
    const auto p = empirical_profile(ctx, c.rows.view(), uniform_buckets{context / buckets}, context);
    double pairs = 0, comparisons = 0;
    for (const auto& b : p.buckets) {
      pairs += static_cast<double>(b.pairs);
      comparisons += static_cast<double>(b.pairs * b.queries);
    }
    state.counters["queries_a_pair"] = comparisons / pairs;
    return pairs;
  });
}

BENCHMARK_CAPTURE(one_group, diagonal_f32, float{}, covariance_kind::diagonal, pair_precision::f32)
    ->Apply(bench::all_sizes);
BENCHMARK_CAPTURE(one_group, joint_f32, float{}, covariance_kind::joint, pair_precision::f32)->Apply(bench::all_sizes);
BENCHMARK_CAPTURE(one_group, diagonal_bf16, bf16{}, covariance_kind::diagonal, pair_precision::f32)
    ->Apply(bench::one_size);
BENCHMARK_CAPTURE(one_group, diagonal_f16, f16{}, covariance_kind::diagonal, pair_precision::f32)
    ->Apply(bench::one_size);
BENCHMARK_CAPTURE(one_group, diagonal_f64, double{}, covariance_kind::diagonal, pair_precision::f64)
    ->Apply(bench::one_size);
BENCHMARK(one_group_heatmap)->Apply(bench::all_sizes);
BENCHMARK_CAPTURE(small_groups, diagonal, covariance_kind::diagonal, false)->Apply(bench::all_sizes);
BENCHMARK_CAPTURE(small_groups, diagonal_heatmap, covariance_kind::diagonal, true)->Apply(bench::one_size);
BENCHMARK_CAPTURE(small_groups, joint, covariance_kind::joint, false)->Apply(bench::all_sizes);
BENCHMARK(empirical)->Apply(bench::all_sizes);

}  // namespace
