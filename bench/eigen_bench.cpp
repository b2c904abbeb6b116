// SPDX-License-Identifier: MIT
// Matrices per second: batches of 64 symmetric eigenproblems (PCA) and of 64 semi-definite factors (query models with a
// full covariance).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include "bench/common/planted_layer.hpp"
#include "bench/common/sizes.hpp"
#include "qkgeom/backend/cpu_context.hpp"

namespace {

using namespace qkgeom;

constexpr std::size_t batch = 64;

/// Covariances root root' of typical heads.
std::vector<std::vector<double>> covariances(index_t d) {
  std::vector<std::vector<double>> all;
  for (std::size_t h = 0; h < batch; ++h) {
    const auto f = bench::typical_head(d, 8192, h + 1).root_q;
    std::vector<double> c(d * d);
    for (index_t i = 0; i < d; ++i)
      for (index_t j = 0; j < d; ++j)
        for (index_t k = 0; k < d; ++k) c[i * d + j] += f[i * d + k] * f[j * d + k];
    all.push_back(std::move(c));
  }
  return all;
}

template <class Work>
void matrix_rate(benchmark::State& state, Work&& work) {
  using clock = std::chrono::steady_clock;
  const auto matrices = covariances(state.range(0));
  std::vector<const std::vector<double>*> pointers;
  for (const auto& m : matrices) pointers.push_back(&m);
  cpu_context ctx{{.threads = static_cast<int>(state.range(1))}};
  double best = 0;
  for (auto _ : state) {
    const auto start = clock::now();
    work(ctx, pointers);
    best = std::max(best, static_cast<double>(batch) / std::chrono::duration<double>(clock::now() - start).count());
  }
  state.counters["matrices_per_s"] = best;
}

void symmetric_eigen(benchmark::State& state) {
  matrix_rate(state, [&](cpu_context& ctx, const auto& m) {
    benchmark::DoNotOptimize(ctx.symmetric_eigen(m, state.range(0)));
  });
}
void semidefinite_factor(benchmark::State& state) {
  matrix_rate(state,
              [&](cpu_context& ctx, const auto& m) { benchmark::DoNotOptimize(ctx.cholesky(m, state.range(0))); });
}

BENCHMARK(symmetric_eigen)->Apply(bench::all_sizes);
BENCHMARK(semidefinite_factor)->Apply(bench::all_sizes);

}  // namespace
