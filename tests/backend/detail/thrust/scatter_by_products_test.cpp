// SPDX-License-Identifier: MIT
#include "qkgeom/backend/detail/thrust/scatter_by_products.hpp"
#include "tests/backend/compared_contexts.hpp"
#include "tests/backend/host_launcher.hpp"
#include "tests/stats/moments_oracle.hpp"

namespace {

using namespace qkgeom;

/// x' x by loops.
struct loop_launcher {
  using slots = std::array<std::vector<double>, 2>;
  std::shared_ptr<slots> host = std::make_shared<slots>();

  void multiply(index_t batch, index_t width, index_t rows, const double* x, double* products) const {
    for (index_t b = 0; b < batch; ++b, x += rows * width, products += width * width)
      for (index_t i = 0; i < width; ++i)
        for (index_t j = 0; j < width; ++j) {
          double sum = 0;
          for (index_t r = 0; r < rows; ++r) sum += x[r * width + i] * x[r * width + j];
          products[i * width + j] = sum;
        }
  }
  void start_copy(int slot, const double* from, index_t n) const { (*host)[slot].assign(from, from + n); }
  const double* copied(int slot) const { return (*host)[slot].data(); }
};

TEST(scatter_by_products, moments_by_products_of_chunks_are_those_of_the_cpu) {
  cpu_context cpu{{.threads = 2}};
  const test::host_launcher launcher;
  const auto planted = plant<bf16>(test::compared_head(20, 3, 400, 100));
  auto rows = as_layer(planted.view()).q;
  rows.heads = 2, rows.dim = rows.head_stride = 10;
  const auto position = planted.view().q_position;
  std::vector<std::int32_t> bucket;  // one bucket is empty, some rows are in none, one holds several chunks
  for (index_t i = 0; i < rows.rows; ++i) bucket.push_back(i % 7 == 0 ? -1 : (i % 2 == 0 ? 0 : 2 + (i % 5 == 0)));
  for (const auto kind : {scatter_kind::full, scatter_kind::diagonal}) {
    const auto want = cpu.moments("q", rows, position, bucket, 4, kind);
    const auto got = thrust_kernels::moments(
        launcher.device(), thrust_kernels::scatter_by_products{loop_launcher{}},
        [&](index_t n, auto&& f) { cpu.for_each(n, f); }, "q", rows, position, bucket, 4, kind);
    for (std::size_t h = 0; h < 2; ++h) {
      test::expect_near(got[h].total, want[h].total, 1e-12);
      for (std::size_t b = 0; b < 4; ++b) test::expect_near(got[h].bucket[b], want[h].bucket[b], 1e-12);
    }
  }
}

}  // namespace
