// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "capture/gguf/gguf_model.hpp"
#include "qkgeom/io/safetensors.hpp"
#include "tests/capture/gguf/written_gguf.hpp"

namespace qkgeom::test {

/// A file that llama.cpp's converter wrote (tests/data/make_gguf_models.py).
inline std::filesystem::path gguf_fixture(const std::string& name) {
  return std::filesystem::path(QKGEOM_TEST_DATA) / "gguf" / (name + ".gguf");
}

inline index_t entries_of(const std::vector<index_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), index_t{1}, std::multiplies<>());
}

/// What `gguf_fixture` holds, with its matrices as they are or in `type`, to be changed and written.
inline written_gguf loaded_gguf(const std::string& name, const std::string& type = "") {
  const gguf_file file(gguf_fixture(name));
  written_gguf w;
  for (const auto& [key, value] : file.metadata().items())
    if (!key.starts_with("test.") && key != "general.name") w.keys.emplace_back(key, value);
  for (const auto& [tensor, t] : file.tensors()) {
    const index_t entries = entries_of(t.shape);
    std::vector<float> values(static_cast<std::size_t>(entries));
    widen_blocks(*t.type, t.data, entries, values.data());
    w.tensors.push_back({tensor, t.shape, t.shape.size() > 1 && !type.empty() ? type : t.type->name, values});
  }
  return w;
}

/// The config.json of a file with these contents.
inline json config_of(const written_gguf& model) {
  const scratch_folder folder;
  put(folder / "m.gguf", model.bytes());
  return gguf_model(folder / "m.gguf").config();
}

/// A number of the checkpoint from which a fixture was made, as make_gguf_models.py's `entries` gives it.
inline unsigned fixture_byte(const std::string& tensor, std::size_t i) {
  std::uint32_t seed = 0;
  for (const char c : tensor) seed = seed * 31 + static_cast<unsigned char>(c);
  return (seed + static_cast<std::uint32_t>(i)) * 2654435761u >> 24;
}

/// Writes the checkpoint from which a fixture was made: config.json and model.safetensors.
inline void write_original(const std::string& name, const std::filesystem::path& folder) {
  const json metadata = gguf_file(gguf_fixture(name)).metadata();
  put(folder / "config.json", metadata["test.config"].get<std::string>());
  const json shapes = json::parse(metadata["test.shapes"].get<std::string>());
  std::map<std::string, std::vector<std::uint8_t>> bytes;
  std::map<std::string, std::vector<float>> numbers;
  std::vector<tensor_to_write> tensors;
  for (const auto& [tensor, shape] : shapes.items()) {
    std::size_t count = 1;
    for (const std::size_t n : shape) count *= n;
    const bool blocks = tensor.ends_with("_blocks"), packed = blocks || tensor.ends_with("_scales");
    for (std::size_t i = 0; i < count; ++i) {
      const unsigned x = fixture_byte(tensor, i);
      if (packed)
        bytes[tensor].push_back(static_cast<std::uint8_t>(blocks ? x : 122 + x % 4));
      else
        numbers[tensor].push_back((static_cast<float>(x) - 128) / 128);
    }
    tensors.push_back({tensor,
                       packed ? "U8" : "F32",
                       shape.get<std::vector<index_t>>(),
                       packed ? std::as_bytes(std::span(bytes[tensor])) : std::as_bytes(std::span(numbers[tensor])),
                       {}});
  }
  write_safetensors(folder / "model.safetensors", tensors);
}

}  // namespace qkgeom::test
