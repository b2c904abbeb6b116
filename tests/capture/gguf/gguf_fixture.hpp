// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "capture/gguf/gguf_model.hpp"
#include "qkgeom/io/safetensors.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom::test {

/// Builds a GGUF file byte by byte, right or, by its fields, wrong.
struct written_gguf {
  struct tensor {
    std::string name;
    std::vector<index_t> shape;   ///< slowest first
    std::string type;             ///< F32, F16, Q8_0 or MXFP4
    std::vector<float> values{};  ///< of F32 and F16
    std::string blocks{};         ///< bytes of the others
  };
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::vector<std::pair<std::string, json>> keys{};
  std::vector<tensor> tensors{};
  std::uint64_t alignment = 32;
  std::uint32_t integer_type = 4, real_type = 6;  ///< of the keys' numbers: u32 and f32, or another of GGUF's

  /// The file's bytes.
  std::string bytes() const {
    std::string out = magic;
    put(out, version);
    put(out, static_cast<std::int64_t>(tensors.size()));
    put(out, static_cast<std::int64_t>(keys.size()));
    for (const auto& [key, value] : keys) {
      put_text(out, key);
      put(out, type_of(value));
      put_value(out, value);
    }
    std::string data;
    for (const auto& t : tensors) {
      put_text(out, t.name);
      put(out, static_cast<std::uint32_t>(t.shape.size()));
      for (auto n = t.shape.rbegin(); n != t.shape.rend(); ++n) put(out, static_cast<std::int64_t>(*n));
      put(out, std::uint32_t{t.type == "F32" ? 0u : t.type == "F16" ? 1u : t.type == "Q8_0" ? 8u : 39u});
      put(out, static_cast<std::uint64_t>(data.size()));
      for (const float x : t.values) t.type == "F32" ? put(data, x) : put(data, f16::round(x));
      data += t.blocks;
      data.resize((data.size() + alignment - 1) / alignment * alignment);
    }
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data;
  }

 private:
  template <class T>
  static void put(std::string& out, const T& x) {
    out.append(reinterpret_cast<const char*>(&x), sizeof(T));
  }
  static void put_text(std::string& out, const std::string& s) {
    put(out, static_cast<std::uint64_t>(s.size()));
    out += s;
  }
  std::uint32_t type_of(const json& v) const {
    if (v.is_array()) return 9;
    if (v.is_string()) return 8;
    if (v.is_boolean()) return 7;
    return v.is_number_float() ? real_type : integer_type;
  }
  void put_value(std::string& out, const json& v) const {
    if (v.is_array()) {
      put(out, v.empty() ? integer_type : type_of(v[0]));
      put(out, static_cast<std::uint64_t>(v.size()));
      for (const auto& x : v) put_value(out, x);
    } else if (v.is_string()) {
      put_text(out, v.get<std::string>());
    } else if (v.is_boolean()) {
      put(out, static_cast<std::uint8_t>(v.get<bool>()));
    } else if (v.is_number_float()) {
      if (real_type == 12)
        put(out, v.get<double>());
      else
        put(out, v.get<float>());
    } else {
      constexpr std::size_t widths[] = {1, 1, 2, 2, 4, 4, 0, 0, 0, 0, 8, 8};
      const auto x = v.get<std::int64_t>();  // its lowest bytes come first
      out.append(reinterpret_cast<const char*>(&x), widths[integer_type]);
    }
  }
};

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
