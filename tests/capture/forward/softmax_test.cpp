// SPDX-License-Identifier: MIT
// What is measured of the softmax, on the CPU and on a device that the host plays, against a plain softmax.
#include "capture/forward/softmax.hpp"

#include "capture/forward/cpu_device.hpp"
#include "tests/capture/forward/compared_passes.hpp"
#include "tests/capture/forward/device/host_device.hpp"
#include "tests/capture/forward/measured_softmax.hpp"

namespace qkgeom {
namespace {

/// All queries of a document, and some.
std::vector<std::vector<std::int32_t>> positions_of(const test::noisy_document& d) {
  std::vector<std::int32_t> all(d.tokens);
  std::iota(all.begin(), all.end(), 0);
  return {all, {0, 3, 4, 70, 71, 139, 290, 300}};
}

TEST(softmax, of_the_cpu_is_a_plain_one_and_does_not_depend_on_threads) {
  const test::noisy_document d;
  for (const auto& positions : positions_of(d))
    for (const std::optional<index_t> window : {std::optional<index_t>(), std::optional<index_t>(37)})
      for (const double cap : {0.0, 1.5})
        for (const auto& sinks : {std::vector<float>{}, {-4, 0.5f, 9}}) {  // below, among and above the scores
          const softmax_request what{.heads = {0, 2, 5},
                                     .positions = positions,
                                     .window = window,
                                     .scale = 0.3,
                                     .cap = cap,
                                     .bins = distance_bins(400),
                                     .sinks = sinks};
          thread_pool one(1), three(3);
          cpu_device alone(one), shared(three);
          const auto found = test::measured_in_chunks<float>(alone, d, what, d.tokens);
          test::expect_near(found, test::plain_softmax(d.queries(), d.keys(), what));
          EXPECT_EQ(found, test::measured_in_chunks<float>(shared, d, what, d.tokens));
        }
}

// Windows narrower than the queries of a product, so that some see none of its first keys; wider ones; and no window.
TEST(softmax, of_a_device_in_chunks_is_a_plain_one) {
  test::noisy_document d;
  for (auto* side : {&d.q, &d.k})
    for (float& x : *side) x = device_kernels::rounded<bf16>(x);
  thread_pool pool(2);
  test::host_device device(pool);
  for (const auto& positions : positions_of(d))
    for (const std::optional<index_t> window : {std::optional<index_t>(), std::optional<index_t>(75), {5}, {1}}) {
      softmax_request what{
          .heads = {0, 1, 2, 4, 5}, .positions = positions, .window = window, .scale = 0.3, .bins = distance_bins(400)};
      const auto expected = test::plain_softmax(d.queries(), d.keys(), what);
      test::expect_near(test::measured_in_chunks<float>(device, d, what), expected);
      test::expect_near(test::measured_in_chunks<bf16>(device, d, what), expected);
      test::expect_near(test::measured_in_chunks<float>(device, d, what, 1000), expected);
      what.sinks = {-4, 9, 0.5f, 1, -1};
      test::expect_near(test::measured_in_chunks<float>(device, d, what),
                        test::plain_softmax(d.queries(), d.keys(), what));
    }
}

// Over equal keys attention is even: its entropy is ln(t + 1), its mass on the first 64 tokens 64 / (t + 1).
TEST(softmax, of_equal_keys_is_known) {
  test::noisy_document d{.tokens = 5000, .query_heads = 1, .key_heads = 1, .dim = 8};
  std::fill(d.k.begin(), d.k.end(), 0.0f);
  std::vector<std::int32_t> positions(600);
  std::iota(positions.begin(), positions.end(), 4400);
  thread_pool pool(2);
  cpu_device device(pool);
  const softmax_measures measures(distance_bins(d.tokens));
  const auto found = test::measured_in_chunks<float>(
      device, d, {.heads = {0}, .positions = positions, .bins = measures.bins}, d.tokens);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const double keys = positions[i] + 1.0;
    const double* const of_query = found.data() + i * measures.count();
    EXPECT_NEAR(of_query[softmax_measures::entropy], std::log(keys), 1e-6);
    EXPECT_NEAR(of_query[2], 64 / keys, 1e-8);
    EXPECT_NEAR(of_query[softmax_measures::distances], 1 / keys, 1e-9);
    EXPECT_NEAR(of_query[softmax_measures::distances + 12], 2048 / keys, 1e-6);
  }
  EXPECT_EQ(distance_bins(1), 1);
  EXPECT_EQ(distance_bins(2), 2);
  EXPECT_EQ(distance_bins(4), 3);
  EXPECT_EQ(distance_bins(5), 4);
}

TEST(softmax, of_models_is_a_plain_one_of_the_rows_that_attend) {
  for (const auto& name : test::varied_families) test::expect_plain_softmax(name, on_the_cpu);
  for (const char* name : {"gpt-oss", "deepseek-v3", "smollm3"}) test::expect_plain_softmax(name, on_the_cpu, 60);
}

}  // namespace
}  // namespace qkgeom
