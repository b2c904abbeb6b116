// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
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
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/sha256.hpp"

namespace qkgeom {

namespace detail {
struct tensor_header;
}

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian and is read in place");

/// Largest header of files read or written, in bytes: the limit of the safetensors library.
inline constexpr std::size_t max_safetensors_header = 100'000'000;

/// Returns the bits of one element of a safetensors dtype ("BF16", "F8_E4M3", ...); no value for an unknown dtype.
std::optional<std::size_t> safetensors_element_bits(std::string_view dtype);

/// Returns a shape as text: "(1149, 2, 32)".
std::string shape_text(const std::vector<index_t>& shape);

/// Returns the size of a tensor whose elements have the size `element`, both in bytes or both in bits; no value if the
/// product does not fit in 63 bits.
std::optional<std::size_t> tensor_size(const std::vector<index_t>& shape, std::size_t element);

/// A tensor of an open file. `data` points into the mapping and need not be aligned.
struct tensor_entry {
  std::string name;
  std::string dtype;
  std::vector<index_t> shape;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// Elements of a tensor as T: in place if the file is aligned for T, else copied.
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
/// bytes, and that the tensors cover the data once and without holes; it throws `error` naming the file. It refuses
/// tensors of unknown dtypes.
class safetensors_file {
 public:
  explicit safetensors_file(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Releases the file's pages from this process' memory until they are read again.
  void forget() const { file_.forget(); }
  /// Releases the pages of one tensor.
  void forget(const tensor_entry& entry) const { file_.forget({entry.data, entry.bytes}); }
  /// Returns all tensors in the order of their data.
  const std::vector<tensor_entry>& tensors() const { return tensors_; }

  /// Returns the tensor of that name, or null.
  const tensor_entry* find(std::string_view name) const;
  /// Returns the tensor of that name. Throws `error` naming file and tensor if it is missing.
  const tensor_entry& at(std::string_view name) const;
  /// Reads a tensor, whose dtype must be T's (bf16, f16, float, double, int32, int64).
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
  void place(std::vector<detail::tensor_header> headers, std::span<const std::byte> data);

  mapped_file file_;
  std::map<std::string, std::string> metadata_;
  std::vector<tensor_entry> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

/// Takes bytes one piece after another.
using byte_sink = std::function<void(std::span<const std::byte>)>;

/// A tensor to be written: its bytes, or a function that produces them in pieces.
struct tensor_to_write {
  std::string name;
  std::string dtype;  ///< safetensors' name
  std::vector<index_t> shape;
  std::span<const std::byte> data{};
  std::function<void(const byte_sink&)> produce{};  ///< used instead of `data` if set
};

/// Prepares the elements at `data`, in the number that the shape says, for writing. Owns nothing.
template <class T>
tensor_to_write tensor_of(std::string name, std::vector<index_t> shape, const T* data) {
  const auto bytes = tensor_size(shape, sizeof(T));
  require(bytes.has_value(), "tensor ", name, " of shape ", shape_text(shape), " is too large");
  return {std::move(name),
          std::string(name_of(dtype_of<T>())),
          std::move(shape),
          {reinterpret_cast<const std::byte*>(data), *bytes},
          {}};
}

/// Writes a safetensors file into `file`, which the caller commits. Tensors are ordered by descending element size
/// (ties: the given order) and the data start at a multiple of 64 bytes, so that every tensor is aligned; the format
/// allows no padding between tensors. Equal input gives equal bytes.
void write_safetensors(atomic_file& file, std::vector<tensor_to_write> tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// Writes a whole safetensors file, complete or not at all. Returns its SHA-256.
std::string write_safetensors(const std::filesystem::path& path, std::vector<tensor_to_write> tensors,
                              const std::map<std::string, std::string>& metadata = {});

}  // namespace qkgeom
