// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "qkgeom/io/capture.hpp"

namespace qkgeom::test {

/// A manifest of two layers (0 with heads of both groups, 2 without RoPE and with a window) and three examples.
inline capture_manifest sample_manifest() {
  capture_manifest m;
  m.model = {"sample", "llama", "00", 3, 4, 4, 2};
  m.context_length = 32;
  m.bucket = {"uniform", 8};
  m.rate = 0.5;
  m.seed = 7;
  m.layers.push_back({0, true, std::nullopt, {0, 3}, {0, 1}, std::nullopt});
  m.layers.push_back({2, false, 16, {1}, {0}, std::nullopt});
  m.examples = {{0, "a", 32, json{{"task", "qa"}}}, {1, "b", 20, nullptr}, {4, "c", 32, nullptr}};
  m.written_by = "test";
  return m;
}

/// Rows of one side: five for each example given, with elements that tell where they belong.
template <class T>
struct sample_side {
  std::vector<T> data;
  std::vector<std::int32_t> position, example, token;

  sample_side(const std::vector<index_t>& examples, index_t heads, index_t dim, index_t step) {
    for (const index_t e : examples)
      for (index_t i = 0; i < 5; ++i) {
        position.push_back(static_cast<std::int32_t>(i * step));
        example.push_back(static_cast<std::int32_t>(e));
        token.push_back(static_cast<std::int32_t>(100 + i));
        for (index_t j = 0; j < heads * dim; ++j) {
          const auto x = static_cast<float>(100 * e + 10 * i + j);
          if constexpr (requires { T::round(x); })
            data.push_back(T::round(x));
          else
            data.push_back(static_cast<T>(x));
        }
      }
  }
  side_to_write view() const { return {std::as_bytes(std::span(data)), position, example, token}; }
};

/// Rows of both layers of the sample for the given examples.
template <class T = float>
struct sample_rows {
  sample_side<T> q0, k0, q2, k2;

  explicit sample_rows(const std::vector<index_t>& examples = {0, 1, 4})
      : q0(examples, 2, 3, 3), k0(examples, 2, 3, 2), q2(examples, 1, 3, 1), k2(examples, 1, 3, 4) {}
  std::vector<layer_to_write> layers() const {
    return {{0, dtype_of<T>(), q0.view(), k0.view()}, {2, dtype_of<T>(), q2.view(), k2.view()}};
  }
};

/// Writes the sample as a folder of two shards: examples 0 and 1, then 4.
template <class T = float>
void write_sample_folder(const std::filesystem::path& folder) {
  const auto m = sample_manifest();
  capture_writer writer(folder, m);
  writer.add_shard({(*m.examples)[0], (*m.examples)[1]}, sample_rows<T>({0, 1}).layers());
  writer.add_shard({(*m.examples)[2]}, sample_rows<T>({4}).layers());
  writer.finish();
}

}  // namespace qkgeom::test
