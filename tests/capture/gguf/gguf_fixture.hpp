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

/// What `gguf_fixture` holds, with its matrices as they are or in `type`, F32 or F16, to be changed and written.
inline written_gguf loaded_gguf(const std::string& name, const std::string& type = "") {
  const gguf_file file(gguf_fixture(name));
  written_gguf w;
  for (const auto& [key, value] : file.metadata().items())
    if (!key.starts_with("test.") && key != "general.name") w.keys.emplace_back(key, value);
  for (const auto& [tensor, t] : file.tensors()) {
    auto& to = w.tensors.emplace_back(tensor, t.shape, t.shape.size() > 1 && !type.empty() ? type : t.type->name);
    if (to.type.starts_with('F')) {
      to.values.resize(static_cast<std::size_t>(entries_of(t.shape)));
      widen_blocks(*t.type, t.data, entries_of(t.shape), to.values.data());
    } else {
      to.blocks.assign(reinterpret_cast<const char*>(t.data), t.bytes);
    }
  }
  return w;
}

/// The config.json of a file with these contents.
inline json config_of(const written_gguf& model) {
  const scratch_folder folder;
  put(folder / "m.gguf", model.bytes());
  return gguf_model(folder / "m.gguf").config();
}

/// Writes the checkpoint from which a fixture was made, as make_gguf_models.py makes it: config.json and
/// model.safetensors, whose entries follow from the names of the tensors.
inline void write_original(const std::string& name, const std::filesystem::path& folder) {
  const json metadata = gguf_file(gguf_fixture(name)).metadata();
  put(folder / "config.json", metadata["test.config"].get<std::string>());
  const json shapes = json::parse(metadata["test.shapes"].get<std::string>());
  std::map<std::string, std::vector<std::uint8_t>> bytes;
  std::map<std::string, std::vector<float>> numbers;
  std::vector<tensor_to_write> tensors;
  for (const auto& [tensor, listed] : shapes.items()) {
    const auto shape = listed.get<std::vector<index_t>>();
    const bool blocks = tensor.ends_with("_blocks"), packed = blocks || tensor.ends_with("_scales");
    std::uint32_t seed = 0;
    for (const char c : tensor) seed = seed * 31 + static_cast<unsigned char>(c);
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(entries_of(shape)); ++i) {
      const unsigned x = (seed + i) * 2654435761u >> 24;
      if (packed)
        bytes[tensor].push_back(static_cast<std::uint8_t>(blocks ? x : 122 + x % 4));
      else
        numbers[tensor].push_back((static_cast<float>(x) - 128) / 128);
    }
    tensors.push_back({tensor, packed ? "U8" : "F32", shape,
                       packed ? std::as_bytes(std::span(bytes[tensor])) : std::as_bytes(std::span(numbers[tensor]))});
  }
  write_safetensors(folder / "model.safetensors", tensors);
}

}  // namespace qkgeom::test
