// SPDX-License-Identifier: MIT
// analyse_call FILE THREADS CALLS   What `qkgeom.analyse` of the Python package is held against (bench/python.sh): the
// same analysis of the same rows, 10 heads x (8000 Q + 8000 K) x 128 in f32. Writes the rows to FILE (safetensors) and
// prints for each call seconds, seconds of the process' threads, and the first head's plasticity.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "bench/common/planted_layer.hpp"
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/safetensors.hpp"
#include "qkgeom/report/analyse_layer.hpp"

namespace {

using namespace qkgeom;

constexpr index_t heads = 10, documents = 500, rows_a_document = 16, dim = 128, length = 131072, buckets = 16;

std::vector<float> widened(const std::vector<bf16>& x) {
  std::vector<float> y;
  y.reserve(x.size());
  for (const bf16 v : x) y.push_back(static_cast<float>(v));
  return y;
}

double of_process() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: analyse_call FILE THREADS CALLS\n");
    return 2;
  }
  const auto layer = bench::plant_layer(heads, documents, rows_a_document, dim, length);
  const auto q = widened(layer.q), k = widened(layer.k);
  constexpr index_t rows = documents * rows_a_document;
  atomic_file file(argv[1]);
  write_safetensors(file,
                    {tensor_of("q", {rows, heads, dim}, q.data()), tensor_of("k", {rows, heads, dim}, k.data()),
                     tensor_of("q_position", {rows}, layer.q_position.data()),
                     tensor_of("k_position", {rows}, layer.k_position.data()),
                     tensor_of("q_document", {rows}, layer.q_document.data()),
                     tensor_of("k_document", {rows}, layer.k_document.data())},
                    {});
  file.commit();

  layer_view<float> view;
  const auto narrow = layer.view();
  view.q = packed_tensor(q.data(), rows, heads, dim);
  view.k = packed_tensor(k.data(), rows, heads, dim);
  view.q_position = narrow.q_position;
  view.q_document = narrow.q_document;
  view.k_position = narrow.k_position;
  view.k_document = narrow.k_document;
  view.key_of_query = narrow.key_of_query;
  layer_names names{0, true, {}, {}};
  for (index_t h = 0; h < heads; ++h) {
    names.query_heads.push_back(h);
    names.key_heads.push_back(h);
  }
  analysis_options options;
  options.covariances = {covariance_kind::diagonal, covariance_kind::joint};
  options.empirical = false;
  cpu_context ctx{{.threads = std::atoi(argv[2])}};
  for (int call = 0; call < std::atoi(argv[3]); ++call) {
    const auto began = std::chrono::steady_clock::now();
    const double cpu = of_process();
    const auto found =
        analyse_layer(ctx, view, names, uniform_buckets{length / buckets}.edges(length), length, options);
    std::printf("%.6f %.6f %.17g\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(),
                of_process() - cpu, found[0].summaries[0].overall.value);
  }
}
