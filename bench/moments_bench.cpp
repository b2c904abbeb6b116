// SPDX-License-Identifier: MIT
// Moments of a head's rows: bytes read per second as a share of the copy rate, and FLOP/s of the covariance's triangle,
// n d (d + 1) FLOP, as a share of the best dgemm. `queries`: a covariance in each of 16 buckets; `keys`: variances
// there, and one covariance in total.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include "bench/common/ceilings.hpp"
#include "bench/common/planted_layer.hpp"
#include "bench/common/sizes.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/stats/moments.hpp"

namespace {

using namespace qkgeom;

constexpr index_t rows = 8000, context = 131072, buckets = 16;

/// `heads` heads at the same positions.
template <class T>
struct rows_of_heads {
  index_t heads, dim;
  std::vector<T> x;
  std::vector<std::int32_t> position, bucket;

  rows_of_heads(index_t h, index_t d) : heads(h), dim(d) {
    const random_stream stream{.seed = 3, .use = draw::planted};
    for (index_t i = 0; i < rows * heads * dim; ++i)
      x.push_back(round_to<T>(4 * stream.uniform(static_cast<std::uint64_t>(i)) - 1));
    const auto edges = uniform_buckets{context / buckets}.edges(context);
    for (index_t i = 0; i < rows; ++i) {
      position.push_back(
          static_cast<std::int32_t>(stream.below(static_cast<std::uint64_t>(rows * heads * dim + i), context)));
      bucket.push_back(static_cast<std::int32_t>(edges(position.back())));
    }
  }
  tensor_view<const T> view() const { return packed_tensor(x.data(), rows, heads, dim); }
};

template <class T>
void moments(benchmark::State& state, T, scatter_kind per_bucket) {
  using clock = std::chrono::steady_clock;
  const int threads = static_cast<int>(state.range(1));
  const rows_of_heads<T> data(4, state.range(0));
  const auto& limit = bench::measured_ceilings(threads);
  cpu_context ctx{{.threads = threads}};
  double best = 0;
  for (auto _ : state) {
    const auto start = clock::now();
    const auto m = ctx.moments("q", data.view(), {data.position.data(), rows}, data.bucket, buckets, per_bucket);
    benchmark::DoNotOptimize(m[0].total.xx[0]);
    best = std::max(best, 1 / std::chrono::duration<double>(clock::now() - start).count());
  }
  const auto values = static_cast<double>(data.x.size()), d = static_cast<double>(data.dim);
  state.counters["bytes_per_s"] = values * sizeof(T) * best;
  state.counters["flop_per_s"] = values * (d + 1) * best;
  state.counters["share_of_dgemm"] = values * (d + 1) * best / limit.best_dgemm();
  state.counters["share_of_copy"] = values * sizeof(T) * best / limit.copy;
  state.counters["ms_a_head"] = 1e3 / best / static_cast<double>(data.heads);
}

BENCHMARK_CAPTURE(moments, bf16_queries, bf16{}, scatter_kind::full)->Apply(bench::all_sizes);
BENCHMARK_CAPTURE(moments, bf16_keys, bf16{}, scatter_kind::diagonal)->Apply(bench::all_sizes);
BENCHMARK_CAPTURE(moments, f16_queries, f16{}, scatter_kind::full)->Apply(bench::one_size);
BENCHMARK_CAPTURE(moments, f32_queries, float{}, scatter_kind::full)->Apply(bench::one_size);
BENCHMARK_CAPTURE(moments, f64_queries, double{}, scatter_kind::full)->Apply(bench::one_size);

}  // namespace
