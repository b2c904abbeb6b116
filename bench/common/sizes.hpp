// SPDX-License-Identifier: MIT
#pragma once

#include <benchmark/benchmark.h>

#include <initializer_list>
#include <thread>
#include <vector>

namespace qkgeom::bench {

/// Runs a bench for each head size, with one thread and with all.
inline void sizes(benchmark::internal::Benchmark* b, std::initializer_list<int> dims) {
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  b->ArgNames({"d", "threads"})->UseRealTime()->Unit(benchmark::kMillisecond);
  for (const int d : dims)
    for (const int threads : all > 1 ? std::vector<int>{1, all} : std::vector<int>{1}) b->Args({d, threads});
}
inline void all_sizes(benchmark::internal::Benchmark* b) { sizes(b, {32, 64, 128, 256}); }
inline void one_size(benchmark::internal::Benchmark* b) { sizes(b, {128}); }

}  // namespace qkgeom::bench
