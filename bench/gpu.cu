// SPDX-License-Identifier: MIT
// Rates of cuda_context, and their shares of the card's ceilings. Times are of whole calls, including results on the
// host; rates are those of the fastest iteration after a warm-up. Data are random, on the device. --small divides sizes
// by about a hundred, to see in seconds that everything works. Exit status 77 where there is no device.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/gpu_layers.cuh"
#include "qkgeom/backend/cuda_context.cuh"
#include "qkgeom/core/random.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/plasticity/empirical.hpp"
#include "qkgeom/plasticity/keys_by_document.hpp"
#include "qkgeom/plasticity/profile.hpp"

namespace {

using namespace qkgeom;
using bench::measured_gpu_ceilings;
using cuda_kernels::check;
index_t context() { return bench::sized(131072); }
index_t bucket() { return context() / 16; }
index_t model_layers() { return bench::sized(10, 2); }  // of 30 heads

/// Seconds of the fastest of the iterations of `state`, after one that warms up.
template <class Work>
double fastest(benchmark::State& state, Work&& work) {
  const bench::stopwatch watch(nullptr);
  work();
  std::vector<double> seconds;
  for (auto _ : state) {
    seconds.push_back(watch.seconds_of(work));
    state.SetIterationTime(seconds.back());
  }
  std::sort(seconds.begin(), seconds.end());
  state.counters["best_s"] = seconds.front();
  state.counters["median_s"] = seconds[seconds.size() / 2];
  return seconds.front();
}

layer_moments moments_of(cuda_context& ctx, const auto& layer) {
  return accumulate(ctx, layer, uniform_buckets{bucket()}, {.context_length = context()});
}

double pairs_of(const std::vector<pair_sums>& sums) {
  double n = 0;
  for (const auto& s : sums)
    for (const auto p : s.pairs) n += static_cast<double>(p);
  return n;
}
double pairs_of(const std::vector<plasticity_profile_result>& profiles) {
  double n = 0;
  for (const auto& p : profiles)
    for (const auto& b : p.buckets) n += static_cast<double>(b.pairs);
  return n;
}

/// One layer of 30 heads: covariances of queries per bucket, of keys in total.
template <class T>
void moments(benchmark::State& state) {
  const bench::device_model<T> model({});
  const auto& shape = model.rows().shape();
  cuda_context ctx;
  const auto layer = model.rows().view(model.q(0), model.k(0));
  const double s = fastest(state, [&] { moments_of(ctx, layer); });
  const auto values = 2 * static_cast<double>(shape.values());
  state.counters["rows_per_s"] = values / static_cast<double>(shape.dim) / s;
  state.counters["share_of_f64_gemm"] =
      values * static_cast<double>(shape.dim + 1) / s / measured_gpu_ceilings().gemm_f64;
  state.counters["bytes_per_s"] = values * sizeof(T) / s;
  state.counters["share_of_copy"] = values * sizeof(T) / s / measured_gpu_ceilings().copy;
}

/// A batch of `problems` symmetric (128, 128) eigenproblems: a layer of 30 heads has as many, a model of 300 heads.
void eigen_batch(benchmark::State& state, index_t problems) {
  constexpr index_t d = 128;
  const auto count = static_cast<std::size_t>(bench::sized(problems));
  const random_stream draws{.seed = 9};
  std::vector<std::vector<double>> matrices(count, std::vector<double>(d * d));
  std::vector<const std::vector<double>*> batch;
  std::uint64_t next = 0;
  for (auto& m : matrices) {
    for (index_t i = 0; i < d; ++i)
      for (index_t j = 0; j <= i; ++j) m[i * d + j] = m[j * d + i] = draws.uniform(next++) - 0.5 + (i == j ? 4.0 : 0.0);
    batch.push_back(&m);
  }
  cuda_context ctx;
  const double s = fastest(state, [&] { benchmark::DoNotOptimize(ctx.symmetric_eigen(batch, d)); });
  state.counters["matrices_per_s"] = static_cast<double>(count) / s;
}

struct pair_case {
  bench::layer_shape shape{};
  gram_products products = gram_products::split_bf16;
  bool across = true, heatmap = false, terms = false;
};

/// gaussian_pairs on a layer under fitted query models.
void pairs(benchmark::State& state, const pair_case& c) {
  const bench::device_model<bf16> model(c.shape);
  const auto layer = model.rows().view(model.q(0), model.k(0));
  cuda_context ctx{{.products = c.products}};
  const auto models = fit_queries(ctx, moments_of(ctx, layer));
  const auto groups = order_keys_by_document(ctx, layer, c.across);
  const auto problems = pair_problems("bench", models, layer);
  const pair_request request{.heatmap_cell = c.heatmap ? bucket() : 0, .terms = c.terms};
  double n = 0;
  const double s = fastest(state, [&] { n = pairs_of(ctx.gaussian_pairs(layer.k, groups, problems, request)); });
  const auto& limit = measured_gpu_ceilings();
  const double products = c.products == gram_products::split_bf16 ? 3 : 1;
  state.counters["pairs"] = n;
  state.counters["pairs_per_s"] = n / s;
  state.counters["share_of_gemm"] = n / s * 2 * products * static_cast<double>(c.shape.dim) / limit.gemm_bf16;
  state.counters["share_of_epilogue"] = n / s / limit.epilogue;
  state.counters["heads"] = static_cast<double>(c.shape.heads);
  state.counters["seconds_of_300_heads"] = s * 300 / static_cast<double>(c.shape.heads);
}

/// What gaussian_pairs does before the first pair: keys of one document each, which make no pairs.
void key_preparation(benchmark::State& state) {
  bench::layer_shape shape;
  shape.documents = shape.rows;
  const bench::device_model<bf16> model(shape);
  const auto layer = model.rows().view(model.q(0), model.k(0));
  cuda_context ctx;
  const auto problems = pair_problems("bench", fit_queries(ctx, moments_of(ctx, layer)), layer);
  const auto groups = order_keys_by_document(ctx, layer, false);
  index_t distributions = 0;
  for (const auto& problem : problems)
    distributions += std::count_if(problem.distributions.begin(), problem.distributions.end(),
                                   [](const auto& scores) { return !scores.empty(); });
  const double s = fastest(state, [&] { ctx.gaussian_pairs(layer.k, groups, problems, {}); });
  state.counters["heads"] = static_cast<double>(shape.heads);
  state.counters["keys_under_a_query_bucket_per_s"] = static_cast<double>(distributions * shape.rows) / s;
  state.counters["seconds_of_300_heads"] = s * 300 / static_cast<double>(shape.heads);
}

/// Same-document pairs of a layer under observed queries, 500 per bucket: 500 comparisons per pair.
void observed_queries(benchmark::State& state) {
  const bench::device_model<bf16> model({});
  cuda_context ctx;
  const auto layer = model.rows().view(model.q(0), model.k(0));
  double n = 0;
  const double s =
      fastest(state, [&] { n = pairs_of(empirical_profile(ctx, layer, uniform_buckets{bucket()}, context())); });
  state.counters["pairs"] = n;
  state.counters["pairs_per_s"] = n / s;
}

/// Profiles of 300 heads whose keys are pooled over documents, under models fitted before.
void pooled_profiles(benchmark::State& state) {
  const bench::device_model<bf16> model({}, model_layers());
  cuda_context ctx;
  std::vector<std::vector<query_model>> models;
  model.each_layer([&](const auto& layer) { models.push_back(fit_queries(ctx, moments_of(ctx, layer))); });
  double n = 0;
  const double s = fastest(state, [&] {
    n = 0;
    std::size_t l = 0;
    model.each_layer(
        [&](const auto& layer) { n += pairs_of(plasticity_profile(ctx, models[l++], layer, all_pairs{true})); });
  });
  state.counters["pairs"] = n;
  state.counters["pairs_per_s"] = n / s;
}

/// All analyses of a model of 300 heads, from rows to profile and heatmap; `rows.each_layer` gives the layers.
template <class Rows>
void whole_model(benchmark::State& state, const Rows& rows, bool across) {
  using clock = std::chrono::steady_clock;
  cuda_context ctx;
  double n = 0, moments_s = 0, geometry_s = 0, models_s = 0, plasticity_s = 0;
  auto last = clock::now();
  const auto lap = [&](double& to) {
    const auto now = clock::now();
    to += std::chrono::duration<double>(now - last).count();
    last = now;
  };
  fastest(state, [&] {
    n = moments_s = geometry_s = models_s = plasticity_s = 0;
    rows.each_layer([&](const auto& layer) {
      last = clock::now();
      const auto m = moments_of(ctx, layer);
      lap(moments_s);
      benchmark::DoNotOptimize(pca(ctx, m));
      benchmark::DoNotOptimize(planar_rotation(ctx, m));
      lap(geometry_s);
      const auto models = fit_queries(ctx, m);
      lap(models_s);
      n += pairs_of(plasticity_profile(ctx, models, layer, all_pairs{across}, {.heatmap = true}));
      lap(plasticity_s);
    });
  });
  state.counters["heads"] = static_cast<double>(model_layers() * bench::layer_shape{}.heads);
  state.counters["pairs"] = n;
  state.counters["moments_s"] = moments_s;  // these four are of the last iteration
  state.counters["pca_and_rotation_s"] = geometry_s;
  state.counters["query_model_s"] = models_s;
  state.counters["plasticity_s"] = plasticity_s;
}

template <class Memory>
void model_from_host(benchmark::State& state, bool across) {
  const bench::device_model<bf16> model({}, model_layers());
  whole_model(state, bench::host_model<bf16, Memory>(model), across);
}

/// Registers a benchmark; an exception becomes its error.
template <class F>
void add(const std::string& name, int iterations, F&& body) {
  const auto guarded = [body](benchmark::State& state) {
    try {
      body(state);
    } catch (const std::exception& e) {
      state.SkipWithError(e.what());
    }
  };
  benchmark::RegisterBenchmark(name.c_str(), guarded)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(bench::sized(iterations));
}

void add_ceiling(const std::string& name, const char* counter, double bench::gpu_ceilings::*rate) {
  add("ceiling/" + name, 1, [=](benchmark::State& state) {
    for (auto _ : state) state.SetIterationTime(0);
    state.counters[counter] = measured_gpu_ceilings().*rate;
  });
}

void add_pairs(const std::string& name, int iterations, const pair_case& c) {
  const std::string products = c.products == gram_products::split_bf16 ? "split_bf16" : "bf16";
  add("pairs/" + name + "/" + products + "/d:" + std::to_string(c.shape.dim), iterations,
      [=](benchmark::State& state) { pairs(state, c); });
}

void add_all() {
  add_ceiling("gemm_bf16", "flop_per_s", &bench::gpu_ceilings::gemm_bf16);
  add_ceiling("gemm_f64", "flop_per_s", &bench::gpu_ceilings::gemm_f64);
  add_ceiling("epilogue", "pairs_per_s", &bench::gpu_ceilings::epilogue);
  add_ceiling("copy", "bytes_per_s", &bench::gpu_ceilings::copy);
  add_ceiling("from_host/pinned", "bytes_per_s", &bench::gpu_ceilings::pinned);
  add_ceiling("from_host/pageable", "bytes_per_s", &bench::gpu_ceilings::pageable);
  add("moments/bf16", 10, moments<bf16>);
  add("moments/f32", 10, moments<float>);
  for (const index_t n : {30, 300})
    add("eigen/" + std::to_string(n) + "_of_128", 10, [=](benchmark::State& state) { eigen_batch(state, n); });
  for (const auto products : {gram_products::split_bf16, gram_products::bf16}) {
    for (const index_t d : {64, 128, 256}) add_pairs("pooled", 10, {.shape = {.dim = d}, .products = products});
    add_pairs("pooled_1_percent_repeated", 10, {.shape = {.repeat_every = 100}, .products = products});
    add_pairs("pooled_heatmap", 10, {.products = products, .heatmap = true});
    add_pairs("pooled_parts", 5, {.products = products, .terms = true});
    add_pairs("groups_of_25", 10, {.products = products, .across = false});
    add_pairs("groups_of_25_heatmap", 10, {.products = products, .across = false, .heatmap = true});
    add_pairs("every_key", 3, {.shape = {.rows = context(), .heads = 2, .documents = 1}, .products = products});
  }
  add("key_preparation/30_heads", 10, key_preparation);
  add("observed_queries/30_heads", 5, observed_queries);
  add("pooled_profiles/300_heads", 5, pooled_profiles);
  for (const bool across : {false, true}) {
    const std::string name = std::string("model/") + (across ? "pooled" : "same_example") + "/";
    add(name + "device", 5,
        [=](benchmark::State& state) { whole_model(state, bench::device_model<bf16>({}, model_layers()), across); });
    add(name + "pinned", 5, [=](benchmark::State& state) { model_from_host<bench::pinned_memory>(state, across); });
    add(name + "pageable", 5, [=](benchmark::State& state) { model_from_host<cpu_memory>(state, across); });
  }
}

}  // namespace

int main(int argc, char** argv) try {
  try {
    cuda_kernels::require_device();
  } catch (const error& e) {
    std::fprintf(stderr, "gpu_bench: %s\n", e.what());
    return 77;
  }
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  benchmark::AddCustomContext("gpu", properties.name);
  benchmark::Initialize(&argc, argv);
  if (argc == 2 && std::string_view(argv[1]) == "--small") bench::shrunk_by = 128, argc = 1;
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  add_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
} catch (const std::exception& e) {
  std::fprintf(stderr, "gpu_bench: %s\n", e.what());
  return 1;
}
