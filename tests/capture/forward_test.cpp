// SPDX-License-Identifier: MIT
// The forward pass against what transformers computes: ids in; q, k of every layer as its attention function receives
// them.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "capture/amx.hpp"
#include "capture/checkpoint.hpp"
#include "capture/decoder.hpp"
#include "qkgeom/io/json.hpp"
#include "qkgeom/io/safetensors.hpp"

namespace qkgeom {
namespace {

using tensors = std::map<std::string, std::vector<float>>;

/// Runs the fixture's ids and picks its positions; q and k of every layer as (heads, positions, head_dim).
tensors run_fixture(const safetensors_file& fixture, const std::string& folder, compute_type type, int threads,
                    attention_kernel kernel = attention_kernel::best) {
  const auto ids = fixture.values<std::int32_t>("ids"), positions = fixture.values<std::int32_t>("position");
  const checkpoint model(folder);
  thread_pool pool(threads);
  const auto description = read_description(read_json(folder + "/config.json"));
  decoder d(description, model, type, description.n_layers() - 1, pool, kernel);
  tensors out;
  d.run({ids.data(), ids.size()}, rope_stage::post,
        [&](index_t layer, tensor_view<const float> q, tensor_view<const float> k) {
          for (const auto& [name, x] : {std::pair{".q", q}, std::pair{".k", k}}) {
            auto& to = out["layer." + std::to_string(layer) + name];
            for (index_t h = 0; h < x.heads; ++h)
              for (const std::int32_t t : positions) to.insert(to.end(), x.head(h).row(t), x.head(h).row(t) + x.dim);
          }
        });
  return out;
}

template <class T>
std::vector<float> widened(const safetensors_file& file, const std::string& name) {
  const auto v = file.values<T>(name);
  return {v.begin(), v.end()};
}

double norm(const std::vector<float>& x) {
  double s = 0;
  for (const double v : x) s += v * v;
  return std::sqrt(s);
}
double distance(const std::vector<float>& x, const std::vector<float>& y) {
  double s = 0;
  for (std::size_t i = 0; i < x.size(); ++i) s += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
  return std::sqrt(s);
}

struct fixture {
  std::string file, folder;
};
std::vector<fixture> fixtures() {
  std::vector<fixture> list;
  for (const char* name : {"forward-short", "forward-mid", "forward-long"}) {
    const std::string file = std::string(QKGEOM_TEST_DATA) + "/forward/" + name + ".safetensors";
    list.push_back({file, std::string(QKGEOM_EXAMPLE_DATA) + "/kjv-smollm3/" +
                              safetensors_file(file).metadata().at("checkpoint")});
  }
  const std::string llama = std::string(QKGEOM_TEST_DATA) + "/llama-tiny";
  list.push_back({llama + "/forward.safetensors", llama});
  return list;
}

TEST(forward, f32_agrees_with_transformers) {
  for (const auto& [file, folder] : fixtures()) {
    const safetensors_file fixture(file);
    for (const auto& [name, ours] : run_fixture(fixture, folder, compute_type::f32, 2)) {
      const auto theirs = widened<float>(fixture, "f32." + name);
      ASSERT_EQ(ours.size(), theirs.size());
      EXPECT_LE(distance(ours, theirs), 1e-4 * norm(theirs)) << file << ' ' << name;
      RecordProperty(name, std::to_string(distance(ours, theirs) / norm(theirs)));
    }
  }
}

void expect_bf16_near_f32(attention_kernel kernel) {
  for (const auto& [file, folder] : fixtures()) {
    const safetensors_file fixture(file);
    for (const auto& [name, ours] : run_fixture(fixture, folder, compute_type::bf16, 2, kernel)) {
      const auto exact = widened<float>(fixture, "f32." + name), theirs = widened<bf16>(fixture, "bf16." + name);
      EXPECT_LE(distance(ours, exact), 1.5 * distance(theirs, exact)) << file << ' ' << name;
      EXPECT_LE(distance(ours, theirs), distance(theirs, exact)) << file << ' ' << name;
    }
  }
}

TEST(forward, bf16_is_as_near_to_f32_as_transformers_is) { expect_bf16_near_f32(attention_kernel::portable); }

TEST(forward, bf16_is_as_near_with_tile_products) {
  if (!amx_available()) GTEST_SKIP() << "this CPU has no AMX, or the system does not grant it";
  expect_bf16_near_f32(attention_kernel::best);
}

TEST(forward, bf16_layer_0_has_the_same_bits) {
  for (const auto& [file, folder] : fixtures()) {
    const safetensors_file fixture(file);
    const auto ours = run_fixture(fixture, folder, compute_type::bf16, 2);
    for (const std::string name : {"layer.0.q", "layer.0.k"}) {
      const auto theirs = widened<bf16>(fixture, "bf16." + name);
      std::size_t same = 0;
      for (std::size_t i = 0; i < theirs.size(); ++i) same += ours.at(name)[i] == theirs[i];
      EXPECT_GE(static_cast<double>(same), 0.99 * static_cast<double>(theirs.size())) << file << ' ' << name;
    }
  }
}

TEST(forward, bits_do_not_depend_on_the_number_of_threads) {
  const auto [file, folder] = fixtures()[1];
  const safetensors_file fixture(file);
  for (const compute_type type : {compute_type::f32, compute_type::bf16})
    EXPECT_EQ(run_fixture(fixture, folder, type, 1), run_fixture(fixture, folder, type, 3));
}

}  // namespace
}  // namespace qkgeom
