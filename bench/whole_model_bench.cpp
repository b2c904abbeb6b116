// SPDX-License-Identifier: MIT
// All analyses of a model of 300 query heads, each with 8000 queries and 8000 keys from 500 documents of up to 131072
// tokens, head size 128, bf16. `whole_model_bench --write FILE` writes one layer's rows and our answers for
// bench/baselines/whole_model.py, which does the same analyses with NumPy.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "bench/common/planted_layer.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/geometry/pca.hpp"
#include "qkgeom/geometry/planar_rotation.hpp"
#include "qkgeom/io/safetensors.hpp"
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/plasticity/profile.hpp"

namespace {

using namespace qkgeom;

constexpr index_t layers = 30, heads_a_layer = 10, documents = 500, rows_a_document = 16, dim = 128, context = 131072,
                  buckets = 16;

/// Layers at different addresses, so that none finds its rows in a cache. All are copies of one planted layer.
const std::vector<bench::layer_rows>& model_rows() {
  static const std::vector<bench::layer_rows> all(
      layers, bench::plant_layer(heads_a_layer, documents, rows_a_document, dim, context));
  return all;
}

struct layer_answers {
  std::vector<pca_result> pca;
  std::vector<rotation_result> rotation;
  std::vector<plasticity_profile_result> profile;
};

struct seconds_spent {
  double moments = 0, pca = 0, rotation = 0, query_model = 0, plasticity = 0;
};

layer_answers analyse_layer(cpu_context& ctx, const layer_view<bf16>& layer, covariance_kind covariance,
                            seconds_spent& spent) {
  using clock = std::chrono::steady_clock;
  auto last = clock::now();
  const auto lap = [&](double& to) {
    const auto now = clock::now();
    to += std::chrono::duration<double>(now - last).count();
    last = now;
  };
  layer_answers r;
  const auto moments = accumulate(ctx, layer, uniform_buckets{context / buckets}, {.context_length = context});
  lap(spent.moments);
  r.pca = pca(ctx, moments);
  lap(spent.pca);
  r.rotation = planar_rotation(ctx, moments);
  lap(spent.rotation);
  const auto models = fit_queries(ctx, moments, {.covariance = covariance});
  lap(spent.query_model);
  r.profile = plasticity_profile(ctx, models, layer, all_pairs{}, {.heatmap = true});
  lap(spent.plasticity);
  return r;
}

void whole_model(benchmark::State& state, covariance_kind covariance) {
  cpu_context ctx{{.threads = static_cast<int>(state.range(0))}};
  const auto& rows = model_rows();
  seconds_spent spent;
  double pairs = 0;
  for (auto _ : state) {
    spent = {};
    pairs = 0;
    for (const auto& layer : rows) {
      const auto answers = analyse_layer(ctx, layer.view(), covariance, spent);
      for (const auto& p : answers.profile)
        for (const auto& b : p.buckets) pairs += static_cast<double>(b.pairs);
    }
  }
  state.counters["heads"] = static_cast<double>(layers * heads_a_layer);
  state.counters["pairs"] = pairs;
  state.counters["moments_s"] = spent.moments;
  state.counters["pca_s"] = spent.pca;
  state.counters["rotation_s"] = spent.rotation;
  state.counters["query_model_s"] = spent.query_model;
  state.counters["plasticity_s"] = spent.plasticity;
  const double total = spent.moments + spent.pca + spent.rotation + spent.query_model + spent.plasticity;
  state.counters["ms_a_head"] = 1e3 * total / static_cast<double>(layers * heads_a_layer);
}

void thread_counts(benchmark::internal::Benchmark* b) {
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  b->ArgName("threads")->Arg(all);
  if (all > 1) b->Arg(1);
  b->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kSecond)->Iterations(1)->Repetitions(3);
}

BENCHMARK_CAPTURE(whole_model, diagonal, covariance_kind::diagonal)->Apply(thread_counts);
BENCHMARK_CAPTURE(whole_model, joint, covariance_kind::joint)->Apply(thread_counts);

/// Writes one layer's rows and our answers, in f64, as tensors of one safetensors file.
void write_layer_and_answers(const std::string& path) {
  const auto layer = bench::plant_layer(heads_a_layer, documents, rows_a_document, dim, context);
  constexpr index_t rows = documents * rows_a_document;
  std::vector<tensor_to_write> tensors{tensor_of("q", {rows, heads_a_layer, dim}, layer.q.data()),
                                       tensor_of("k", {rows, heads_a_layer, dim}, layer.k.data()),
                                       tensor_of("q_position", {rows}, layer.q_position.data()),
                                       tensor_of("k_position", {rows}, layer.k_position.data()),
                                       tensor_of("q_example", {rows}, layer.q_document.data()),
                                       tensor_of("k_example", {rows}, layer.k_document.data())};
  std::deque<std::vector<double>> kept;
  const auto add = [&](const std::string& name, std::vector<index_t> shape, std::vector<double> values) {
    kept.push_back(std::move(values));
    tensors.push_back(tensor_of("answer." + name, std::move(shape), kept.back().data()));
  };
  cpu_context ctx{{.threads = 1}};
  for (const auto covariance : {covariance_kind::diagonal, covariance_kind::joint}) {
    seconds_spent unused;
    const auto answers = analyse_layer(ctx, layer.view(), covariance, unused);
    std::vector<double> pca, rotation, profile, heatmap;
    const auto width = answers.profile[0].heatmap.width;
    for (std::size_t h = 0; h < answers.pca.size(); ++h) {
      const auto& p = answers.pca[h];
      for (const auto* values : {&p.explained_variance, &p.r_q, &p.r_k})
        pca.insert(pca.end(), values->begin(), values->end());
      const auto& r = answers.rotation[h];
      rotation.insert(rotation.end(), {r.q.r, r.k.r, r.q.alpha, r.k.alpha, r.q.mu, r.k.mu, r.q.mu_b, r.k.mu_b,
                                       r.bias.strength, r.separation_strength, r.plane_var_fraction});
      for (const auto& b : answers.profile[h].buckets) profile.push_back(b.plasticity);
      for (index_t i = 0; i < width; ++i)
        for (index_t j = 0; j < width; ++j) heatmap.push_back(answers.profile[h].heatmap.mean(i, j));
    }
    const std::string kind(name_of(covariance));
    if (covariance == covariance_kind::diagonal) {
      add("pca", {heads_a_layer, 3, dim}, std::move(pca));
      const auto columns = static_cast<index_t>(rotation.size()) / heads_a_layer;
      add("rotation", {heads_a_layer, columns}, std::move(rotation));
    }
    add("profile." + kind, {heads_a_layer, buckets}, std::move(profile));
    add("heatmap." + kind, {heads_a_layer, width, width}, std::move(heatmap));
  }
  atomic_file file(path);
  write_safetensors(file, tensors, {{"context", std::to_string(context)}, {"buckets", std::to_string(buckets)}});
  file.commit();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--write") == 0) {
    write_layer_and_answers(argv[2]);
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
