// SPDX-License-Identifier: MIT
// The (query bucket, key bucket) table against the golden answers, as captured (not turned to the keys' signs).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/io/capture.hpp"
#include "qkgeom/plasticity/bucket_table.hpp"
#include "tests/common/data_files.hpp"

namespace {

using namespace qkgeom;
using nlohmann::json;

void check(const std::string& capture_name, const std::string& answers) {
  const auto source = capture::open(test::golden(capture_name));
  const json all = json::parse(std::ifstream(test::golden(answers)));
  cpu_context ctx{{.threads = 2}};
  std::size_t compared = 0;
  for (const auto& want : all.at("heads")) {
    const auto layer = source.read_layer(want.at("layer"));
    layer.visit([&]<class T>(const layer_view<T>& view) {
      for (std::size_t h = 0; h < layer.query_heads.size(); ++h) {
        if (layer.query_heads[h] != want.at("query_head").get<index_t>()) continue;
        const auto head = view.head(static_cast<index_t>(h));
        const auto moments = accumulate(ctx, head, uniform_buckets{all.at("bucket").get<index_t>()},
                                        {.context_length = all.at("context")});
        const auto model =
            fit_queries(ctx, moments, {.covariance = covariance_kind::linear_drift, .position = query_position::mean});
        const auto table = bucket_table(ctx, model, head, all_pairs{}, {.precision = pair_precision::f64});
        std::size_t filled = 0;
        for (const auto& cell : table.cells) filled += cell.pairs > 0;
        EXPECT_EQ(filled, want.at("author_bucket_table_unoriented").size());
        for (const auto& w : want.at("author_bucket_table_unoriented")) {
          const auto& cell = table.cell(w.at("q_bucket"), w.at("k_bucket"));
          EXPECT_EQ(cell.pairs, w.at("pairs").get<std::int64_t>());
          EXPECT_NEAR(cell.plasticity, w.at("ap_bucket").get<double>(), 1e-9);
          ++compared;
        }
      }
    });
  }
  EXPECT_GT(compared, 100u);
}

TEST(golden_bucket_table, long_f64) { check("long-f64.safetensors", "long-f32.json"); }
TEST(golden_bucket_table, short_bf16) { check("short-bf16.safetensors", "short-bf16.json"); }

}  // namespace
