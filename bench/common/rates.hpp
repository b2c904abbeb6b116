// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <barrier>
#include <chrono>
#include <limits>
#include <random>
#include <thread>
#include <vector>

namespace qkgeom::bench {

/// n numbers in [-1, 1]. On constant ones a GEMM is faster: wires that do not switch let the clock rise.
template <class T>
void fill_random(std::vector<T>& x, std::size_t n) {
  std::minstd_rand bits(1);
  std::uniform_real_distribution<T> uniform(-1, 1);
  x.resize(n);
  for (T& value : x) value = uniform(bits);
}

/// Seconds of the shortest round, in which `threads` threads run work(thread) side by side, of at least three rounds
/// and `budget` seconds. The shortest, since other programs only lengthen rounds.
template <class Work>
double best_round(int threads, double budget, Work&& work) {
  using clock = std::chrono::steady_clock;
  const auto seconds_since = [](clock::time_point t) {
    return std::chrono::duration<double>(clock::now() - t).count();
  };
  double best = std::numeric_limits<double>::infinity();
  bool more = true;
  std::barrier gate(threads);
  const auto run = [&](int thread) {
    const auto first = clock::now();
    for (int r = 1;; ++r) {
      gate.arrive_and_wait();
      if (!more) return;
      const auto start = clock::now();
      work(thread);
      gate.arrive_and_wait();
      if (thread != 0) continue;
      best = std::min(best, seconds_since(start));
      more = r < 3 || seconds_since(first) < budget;
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(run, t);
  run(0);
  for (auto& t : others) t.join();
  return best;
}

}  // namespace qkgeom::bench
