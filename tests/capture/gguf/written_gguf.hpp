// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capture/gguf/block_types.hpp"
#include "qkgeom/core/scalar.hpp"
#include "qkgeom/io/json.hpp"
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

}  // namespace qkgeom::test
