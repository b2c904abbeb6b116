// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "qkgeom/io/safetensors_write.hpp"

namespace qkgeom {

QKGEOM_INLINE void write_safetensors(atomic_file& file, std::vector<tensor_to_write> tensors,
                                     const std::map<std::string, std::string>& metadata) {
  const std::string target = file.path().string();
  const auto size = [&](const tensor_to_write& t) {
    const auto bits = safetensors_element_bits(t.dtype);
    require(bits.has_value(), "cannot write ", target, ": tensor ", t.name, " has the unknown dtype ", t.dtype);
    return *bits;
  };
  std::stable_sort(tensors.begin(), tensors.end(), [&](const auto& a, const auto& b) { return size(a) > size(b); });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::vector<std::size_t> ends;
  std::set<std::string> names{"__metadata__"};
  std::size_t end = 0;
  for (const auto& t : tensors) {
    const auto bits = tensor_size(t.shape, size(t));
    require(names.insert(t.name).second, "cannot write ", target, ": two tensors would be called ", t.name);
    require(bits.has_value() && *bits % 8 == 0 && (t.produce || t.data.size() == *bits / 8), "cannot write ", target,
            ": tensor ", t.name, " of shape ", shape_text(t.shape), " and dtype ", t.dtype, " was given ",
            t.data.size(), " bytes");
    header[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {end, end + *bits / 8}}};
    ends.push_back(end += *bits / 8);
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    fail("cannot write ", target, ": a tensor name or the metadata is not UTF-8");
  }
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' ');
  require(text.size() <= max_safetensors_header, "cannot write ", target, ": the header would have ", text.size(),
          " bytes");

  const std::uint64_t length = text.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  const std::size_t data_start = file.written();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].produce)
      tensors[i].produce([&](std::span<const std::byte> bytes) { file.write(bytes); });
    else
      file.write(tensors[i].data);
    require(file.written() - data_start == ends[i], "cannot write ", target, ": tensor ", tensors[i].name,
            " was given ", "a wrong number of bytes");
  }
}

}  // namespace qkgeom
