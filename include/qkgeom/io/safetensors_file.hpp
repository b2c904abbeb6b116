// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/scalar.hpp"
#include "qkgeom/core/view.hpp"
#include "qkgeom/io/detail/safetensors_header.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/mapped_file.hpp"

namespace qkgeom {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and is read in place");

/// Largest header that is read or written, in bytes: the limit of the safetensors library.
inline constexpr std::size_t max_safetensors_header = 100'000'000;

/// Bits of one element of a safetensors dtype ("BF16", "F8_E4M3", ...); none if the dtype is unknown.
inline std::optional<std::size_t> safetensors_element_bits(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::size_t> sizes[] = {
      {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"BOOL", 8},        {"U8", 8},      {"I8", 8},
      {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E8M0", 8}, {"U16", 16},
      {"I16", 16},    {"F16", 16},    {"BF16", 16},       {"U32", 32},        {"I32", 32},    {"F32", 32},
      {"U64", 64},    {"I64", 64},    {"F64", 64},        {"C64", 64}};
  for (const auto& [name, bits] : sizes)
    if (name == dtype) return bits;
  return std::nullopt;
}

/// A shape as text: "(1149, 2, 32)".
inline std::string shape_text(const std::vector<index_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ')';
}

/// Size of a tensor whose elements have the size `element`, both in bytes or both in bits; none if the product does not
/// fit in 63 bits.
inline std::optional<std::size_t> tensor_size(const std::vector<index_t>& shape, std::size_t element) {
  index_t size = static_cast<index_t>(element);
  bool fits = true;
  // A zero makes the tensor empty only if the axes before it did not overflow: the safetensors library refuses so too.
  for (const index_t n : shape) fits = fits && n >= 0 && !__builtin_mul_overflow(size, n, &size);
  return fits ? std::optional(static_cast<std::size_t>(size)) : std::nullopt;
}

/// A tensor of an open file. `data` points into the mapping and need not be aligned.
struct tensor_entry {
  std::string name;
  std::string dtype;
  std::vector<index_t> shape;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// The elements of a tensor as T: in place where the file is aligned for T, else copied.
template <class T>
class tensor_values {
 public:
  using value_type = T;
  using const_iterator = const T*;

  tensor_values(const std::byte* data, std::size_t count) : data_(reinterpret_cast<const T*>(data)), size_(count) {
    if (reinterpret_cast<std::uintptr_t>(data) % alignof(T) == 0) return;
    copy_.resize(count);
    std::memcpy(static_cast<void*>(copy_.data()), data, count * sizeof(T));
    data_ = copy_.data();
  }
  tensor_values(tensor_values&&) noexcept = default;
  tensor_values& operator=(tensor_values&&) noexcept = default;
  tensor_values(const tensor_values&) = delete;
  tensor_values& operator=(const tensor_values&) = delete;

  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  bool copied() const { return !copy_.empty(); }

 private:
  std::vector<T> copy_;
  const T* data_;
  std::size_t size_;
};

/// A safetensors file mapped into memory. The constructor checks the header's length and JSON, the shapes against the
/// bytes, and that the tensors cover the data once and without holes; it throws `error` naming the file. Tensors of an
/// unknown dtype are refused.
class safetensors_file {
 public:
  explicit safetensors_file(const std::filesystem::path& path) : file_(path) {
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

  const std::filesystem::path& path() const { return file_.path(); }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Takes the file's pages out of this process' memory until they are read again.
  void forget() const { file_.forget(); }
  /// The same for one tensor.
  void forget(const tensor_entry& entry) const { file_.forget({entry.data, entry.bytes}); }
  /// All tensors in the order of their data.
  const std::vector<tensor_entry>& tensors() const { return tensors_; }

  /// The tensor of that name, or null.
  const tensor_entry* find(std::string_view name) const {
    const auto it = index_.find(name);
    return it == index_.end() ? nullptr : &tensors_[it->second];
  }
  /// The tensor of that name. Throws `error` naming file and tensor if it is not there.
  const tensor_entry& at(std::string_view name) const {
    const tensor_entry* const entry = find(name);
    require(entry != nullptr, path().string(), ": there is no tensor ", name);
    return *entry;
  }
  /// Elements of a tensor, whose dtype must be T's (bf16, f16, float, double, int32, int64).
  template <class T>
  tensor_values<T> values(const tensor_entry& entry) const {
    require(entry.dtype == name_of(dtype_of<T>()), path().string(), ": tensor ", entry.name, " must have dtype ",
            name_of(dtype_of<T>()), ", not ", printable(entry.dtype));
    return {entry.data, entry.bytes / sizeof(T)};
  }
  template <class T>
  tensor_values<T> values(std::string_view name) const {
    return values<T>(at(name));
  }

 private:
  /// Checks the offsets and fills `tensors_` in the order of the data.
  void place(std::vector<detail::tensor_header> headers, std::span<const std::byte> data) {
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
    std::stable_sort(headers.begin(), headers.end(),
                     [](const auto& a, const auto& b) { return a.offsets < b.offsets; });
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

  mapped_file file_;
  std::map<std::string, std::string> metadata_;
  std::vector<tensor_entry> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace qkgeom
