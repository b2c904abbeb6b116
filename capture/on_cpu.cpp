// SPDX-License-Identifier: MIT
#include "capture/on_cpu.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "capture/analysis/live_analysis_on.hpp"
#include "capture/job/stores/moment_function.hpp"
#include "qkgeom/core/random.hpp"

namespace qkgeom {

capture_backend cpu_backend(cpu_context& cpu) {
  return {.moments =
              [&cpu](const char* side, const tensor_view<const float>& x,
                     const vector_view<const std::int32_t>& position) { return total_moments(cpu, side, x, position); },
          .analyses =
              [&cpu](const capture_manifest& plan, const live_analysis_options& live) {
                return std::make_unique<live_analysis_on<cpu_context>>(cpu, plan, live);
              }};
}

double pairs_per_second(cpu_context& cpu, index_t dim, const live_analysis_options& live) {
  constexpr index_t n = 4096;
  const random_stream stream{.seed = 1, .use = draw::permutation};
  std::vector<float> k(n * dim);
  for (std::size_t i = 0; i < k.size(); ++i) k[i] = static_cast<float>(stream.uniform(i)) - 0.5f;
  std::vector<std::int32_t> position(n), document(position.size());
  std::iota(position.begin(), position.end(), 0);
  const vector_view<const std::int32_t> positions{position.data(), n}, documents{document.data(), n};
  const tensor_view<const float> rows = packed_tensor(static_cast<const float*>(k.data()), n, 1, dim);
  const layer_view<float> layer{rows, positions, documents, rows, positions, documents, {0}};
  const auto moments = accumulate(cpu, layer, edge_buckets{{n - 256, n}});
  const analysis_options options = analysis_options_of(live);
  double pairs = 0, seconds = 0;
  for (const covariance_kind kind : options.covariances) {
    auto models = fit_queries(cpu, moments, {.covariance = kind});
    for (const bool counts : {false, true}) {  // the first run warms up
      const auto start = std::chrono::steady_clock::now();
      const auto found = plasticity_profile(cpu, models, layer);
      if (!counts) continue;
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      pairs += static_cast<double>(found[0].buckets[0].pairs);
    }
  }
  return pairs / seconds;
}

}  // namespace qkgeom
