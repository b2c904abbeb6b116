// SPDX-License-Identifier: MIT
// The forward pass on a GPU against transformers and against the CPU. Skipped where there is no device.
#include "capture/on_cuda.hpp"
#include "tests/capture/forward/compared_passes.hpp"

namespace qkgeom {
namespace {

class forward_on_gpu : public testing::Test {
 protected:
  void SetUp() override {
    try {
      cuda_forward_pass({});
    } catch (const error& e) {
      GTEST_SKIP() << e.what();
    }
  }

  static forward_pass_factory pass(resident_layers resident = resident_layers::automatic, index_t chunk = 0) {
    return cuda_forward_pass({.resident = resident, .max_length = 4096, .chunk = chunk});
  }
  /// Documents in one chunk, and in several: queries that are not the first of their document.
  static std::vector<forward_pass_factory> passes() {
    return {pass(), pass(resident_layers::automatic, 48), pass(resident_layers::automatic, 9)};
  }
};

TEST_F(forward_on_gpu, small_models_agree_with_transformers) {
  for (const auto& name : test::varied_families)  // few chunks, since slow tools run this too
    for (const auto& p : {pass(), pass(resident_layers::automatic, 48)})
      test::expect_f32_as_transformers(family_fixture(name), p);
}

TEST_F(forward_on_gpu, small_models_measure_a_plain_softmax) {
  for (const auto& name : test::varied_families)
    for (const auto& p : {pass(), pass(resident_layers::automatic, 48)}) test::expect_plain_softmax(name, p);
}

TEST_F(forward_on_gpu, small_documents_give_every_sink_what_the_cpu_gives) {
  for (const auto& name : test::varied_families)
    for (const rope_stage stage : {rope_stage::post, rope_stage::pre})
      test::expect_sinks_as_on_the_cpu(name, stage, pass(resident_layers::automatic, 9), 12);
}

TEST_F(forward_on_gpu, small_documents_change_heads_as_the_cpu_does) {
  for (const auto& name : test::varied_families)
    test::expect_changed_heads_as_on_the_cpu(name, pass(resident_layers::automatic, 9), 12);
}

TEST_F(forward_on_gpu, small_documents_in_bf16_give_the_same_whichever_layers_stay) {
  for (const auto& name : test::varied_families)
    test::expect_same_bits(name, pass(resident_layers::stream), {pass(resident_layers::all)}, 12);
}

/// The last chunk of a document may be one query alone.
TEST_F(forward_on_gpu, small_texts_in_bf16_are_as_near_to_f32_as_transformers_is) {
  const auto shortest = forward_fixtures().front();
  const auto tokens = static_cast<index_t>(shortest.ids().size());
  for (const index_t chunk : {index_t{0}, tokens - 1})
    test::expect_bf16_near_transformers(shortest, pass(resident_layers::automatic, chunk));
}

TEST_F(forward_on_gpu, f32_agrees_with_transformers) {
  for (const auto& f : forward_fixtures()) test::expect_f32_as_transformers(f, pass());
}

TEST_F(forward_on_gpu, bf16_is_as_near_to_f32_as_transformers_is_and_has_its_bits_in_layer_0) {
  for (const auto& f : forward_fixtures())
    for (const auto& p : {pass(), pass(resident_layers::automatic, 48)}) test::expect_bf16_near_transformers(f, p);
}

TEST_F(forward_on_gpu, every_sink_of_several_documents_gets_what_the_cpu_gives) {
  for (const auto& name : test::varied_families)
    for (const rope_stage stage : {rope_stage::post, rope_stage::pre})
      for (const auto& p : passes()) test::expect_sinks_as_on_the_cpu(name, stage, p);
}

TEST_F(forward_on_gpu, results_do_not_depend_on_which_layers_stay_or_on_what_ran_before) {
  for (const char* name : {"llama-dynamic", "qwen3-moe"})
    test::expect_same_bits(name, pass(resident_layers::stream),
                           {pass(resident_layers::stream), pass(resident_layers::all), pass()});
}

}  // namespace
}  // namespace qkgeom
