// SPDX-License-Identifier: MIT
#include "capture/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "capture/json_access.hpp"
#include "qkgeom/core/scalar.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

template <class T>
T element(const std::byte* data, index_t i) {
  T x;
  std::memcpy(&x, data + i * static_cast<index_t>(sizeof(T)), sizeof(T));
  return x;
}

/// Widens `count` entries; returns whether all are finite.
template <class T>
bool widen(const std::byte* data, index_t first, index_t count, bool to_bf16, float* out) {
  // An exponent of all ones marks Inf and NaN; collecting the bits keeps the loop free of branches.
  std::uint32_t bad = 0;
  const bool round = to_bf16 && !std::is_same_v<T, bf16>;
  for (index_t i = 0; i < count; ++i) {
    float x = static_cast<float>(element<T>(data, first + i));
    if (round) x = static_cast<float>(bf16::round(x));
    bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(x) & 0x7f800000u) == 0x7f800000u);
    out[i] = x;
  }
  return bad == 0;
}

}  // namespace

checkpoint::checkpoint(const std::filesystem::path& folder) : folder_(folder) {
  const auto add = [&](const std::string& file, const auto& wanted) {
    const auto shard = std::make_shared<const safetensors_file>(folder / file);
    for (const auto& tensor : shard->tensors())
      if (wanted(tensor.name)) files_.emplace(tensor.name, shard);
  };
  if (std::filesystem::exists(folder / "model.safetensors")) {
    add("model.safetensors", [](const std::string&) { return true; });
    return;
  }
  const auto index_path = folder / "model.safetensors.index.json";
  require(std::filesystem::exists(index_path), folder.string(),
          " has neither model.safetensors nor model.safetensors.index.json");
  const auto index = read_json(index_path);
  const json_fields fields(index, index_path.string());
  const auto map = fields.child("weight_map");
  require(map.has_value(), index_path.string(), " has no field weight_map");
  std::map<std::string, std::vector<std::string>> shards;
  for (const auto& [tensor, file] : map->object().items()) {
    require(file.is_string() && file.template get<std::string>().find('/') == std::string::npos, index_path.string(),
            ": weight_map of ", tensor, " must be the plain name of a file");
    shards[file.template get<std::string>()].push_back(tensor);
  }
  for (auto& shard : shards) {
    std::vector<std::string>& names = shard.second;
    std::sort(names.begin(), names.end());
    add(shard.first, [&](const std::string& name) { return std::binary_search(names.begin(), names.end(), name); });
  }
}

const tensor_entry& checkpoint::entry(const std::string& name) const {
  const auto file = files_.find(name);
  require(file != files_.end(), "the checkpoint in ", folder_.string(), " has no tensor ", name);
  return file->second->at(name);
}

void checkpoint::check(const std::string& name, const std::vector<index_t>& shape) const {
  const tensor_entry& t = entry(name);
  require(t.shape == shape, "the checkpoint in ", folder_.string(), ": tensor ", name, " must have shape ",
          shape_text(shape), " by config.json, not ", shape_text(t.shape));
  require(t.dtype == "BF16" || t.dtype == "F16" || t.dtype == "F32", "the checkpoint in ", folder_.string(),
          ": tensor ", name, " must be BF16, F16 or F32, not ", t.dtype);
}

void checkpoint::read(const std::string& name, const std::vector<index_t>& shape, index_t first, index_t count,
                      bool to_bf16, float* out) const {
  check(name, shape);
  const tensor_entry& t = entry(name);
  require(first >= 0 && count >= 0 && first + count <= shape[0], "rows ", first, " to ", first + count, " of tensor ",
          name, ", which has ", shape[0]);
  const index_t width = shape.size() > 1 ? shape[1] : 1, n = count * width;
  const bool finite = t.dtype == "BF16"  ? widen<bf16>(t.data, first * width, n, to_bf16, out)
                      : t.dtype == "F16" ? widen<f16>(t.data, first * width, n, to_bf16, out)
                                         : widen<float>(t.data, first * width, n, to_bf16, out);
  if (finite) return;
  const float* bad = std::find_if(out, out + n, [](float x) { return !std::isfinite(x); });
  fail("the checkpoint in ", folder_.string(), ": tensor ", name, " holds ", std::isnan(*bad) ? "NaN" : "Inf",
       " at entry ", first * width + (bad - out));
}

}  // namespace qkgeom
