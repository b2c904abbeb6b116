// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/utf8.hpp"
#include "qkgeom/io/safetensors_file.hpp"

namespace qkgeom {

QKGEOM_INLINE std::optional<std::size_t> safetensors_element_bits(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::size_t> sizes[] = {
      {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"BOOL", 8},        {"U8", 8},      {"I8", 8},
      {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E8M0", 8}, {"U16", 16},
      {"I16", 16},    {"F16", 16},    {"BF16", 16},       {"U32", 32},        {"I32", 32},    {"F32", 32},
      {"U64", 64},    {"I64", 64},    {"F64", 64},        {"C64", 64}};
  for (const auto& [name, bits] : sizes)
    if (name == dtype) return bits;
  return std::nullopt;
}

QKGEOM_INLINE std::string shape_text(const std::vector<index_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ')';
}

QKGEOM_INLINE std::optional<std::size_t> tensor_size(const std::vector<index_t>& shape, std::size_t element) {
  index_t size = static_cast<index_t>(element);
  bool fits = true;
  // A zero makes the tensor empty only if the axes before it did not overflow: the safetensors library refuses so too.
  for (const index_t n : shape) fits = fits && n >= 0 && !__builtin_mul_overflow(size, n, &size);
  return fits ? std::optional(static_cast<std::size_t>(size)) : std::nullopt;
}

QKGEOM_INLINE safetensors_file::safetensors_file(const std::filesystem::path& path) : file_(path) {
  const auto bytes = file_.bytes();
  const std::string name = file_.path().string();
  require(bytes.size() >= 8, name, ": not a safetensors file: it has only ", bytes.size(), " bytes");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  require(length <= max_safetensors_header, name, ": not a safetensors file: its header would have ", length,
          " bytes, more than the ", max_safetensors_header, " allowed");
  require(length <= bytes.size() - 8, name, ": the file is cut short: its header has ", length,
          " bytes, the file only ", bytes.size() - 8, " after the length");
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + 8;
  require(length >= 2 && *text == '{', name, ": not a safetensors file: no JSON object follows the header length");
  auto header = detail::read_safetensors_header({text, length}, name);
  metadata_ = std::move(header.metadata);
  place(std::move(header.tensors), bytes.subspan(8 + length));
}

QKGEOM_INLINE const tensor_entry* safetensors_file::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

QKGEOM_INLINE const tensor_entry& safetensors_file::at(std::string_view name) const {
  const tensor_entry* const entry = find(name);
  require(entry != nullptr, path().string(), ": there is no tensor ", name);
  return *entry;
}

QKGEOM_INLINE void safetensors_file::place(std::vector<detail::tensor_header> headers,
                                           std::span<const std::byte> data) {
  const std::string file = path().string();
  for (const auto& t : headers) {
    const std::string name = '"' + printable(t.name) + '"';
    require(t.offsets[0] <= t.offsets[1] && t.offsets[1] <= data.size(), file, ": tensor ", name, " lies at bytes ",
            t.offsets[0], " to ", t.offsets[1], " of data that has ", data.size(),
            " (the file is cut short, or its header is wrong)");
    const auto element = safetensors_element_bits(t.dtype);
    require(element.has_value(), file, ": tensor ", name, " has the unknown dtype \"", printable(t.dtype), '"');
    const auto bits = tensor_size(t.shape, *element);
    require(bits.has_value(), file, ": tensor ", name, " of shape ", shape_text(t.shape), " is too large to exist");
    require(*bits % 8 == 0, file, ": tensor ", name, " of shape ", shape_text(t.shape), " and dtype ", t.dtype,
            " needs ", *bits, " bits, which are no whole bytes");
    require(*bits / 8 == t.offsets[1] - t.offsets[0], file, ": tensor ", name, " of shape ", shape_text(t.shape),
            " and dtype ", t.dtype, " needs ", *bits / 8, " bytes, but its data_offsets span ",
            t.offsets[1] - t.offsets[0]);
  }
  std::stable_sort(headers.begin(), headers.end(), [](const auto& a, const auto& b) { return a.offsets < b.offsets; });
  std::uint64_t end = 0;
  tensors_.reserve(headers.size());
  for (auto& t : headers) {
    const bool overlap = t.offsets[0] < end;
    require(t.offsets[0] == end, file, ": tensor \"", printable(t.name), "\" starts at byte ", t.offsets[0],
            overlap ? " inside the tensor before it, which ends at " : " and leaves a hole after byte ", end);
    end = t.offsets[1];
    tensors_.push_back({std::move(t.name), std::move(t.dtype), std::move(t.shape), data.data() + t.offsets[0],
                        t.offsets[1] - t.offsets[0]});
  }
  require(end == data.size(), file, ": the tensors end at byte ", end, " of ", data.size(), " bytes of data");
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

}  // namespace qkgeom
