// SPDX-License-Identifier: MIT
// The rates that others are compared with: GEMM of Eigen, GEMM of OpenBLAS with each kernel set of this CPU, copying.
#include <benchmark/benchmark.h>

#include <string>
#include <thread>

#include "bench/common/ceilings.hpp"

namespace {

void add_rates(int threads) {
  const auto& c = qkgeom::bench::measured_ceilings(threads);
  const auto add = [&](const std::string& name, const char* counter, double rate) {
    benchmark::RegisterBenchmark((name + "/threads:" + std::to_string(threads)).c_str(), [=](benchmark::State& state) {
      for (auto _ : state) benchmark::DoNotOptimize(rate);
      state.counters[counter] = rate;
    })->Iterations(1);
  };
  for (const auto& g : c.gemm) {
    add("sgemm/" + g.name, "flop_per_s", g.sgemm);
    add("dgemm/" + g.name, "flop_per_s", g.dgemm);
  }
  add("copy", "bytes_per_s", c.copy);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  add_rates(1);
  if (all > 1) add_rates(all);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
