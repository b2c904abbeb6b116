// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/scalar.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/safetensors_file.hpp"
#include "qkgeom/io/sha256.hpp"

namespace qkgeom {

/// Takes the next bytes.
using byte_sink = std::function<void(std::span<const std::byte>)>;

/// A tensor to be written: its bytes, or a function that hands them out piece by piece.
struct tensor_to_write {
  std::string name;
  std::string dtype;  ///< as safetensors names it
  std::vector<index_t> shape;
  std::span<const std::byte> data{};
  std::function<void(const byte_sink&)> produce{};  ///< used instead of `data` if set
};

/// A tensor to write whose elements lie at `data`, as many as the shape says. Owns nothing.
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

/// Writes a safetensors file into `file`, which the caller commits. Tensors go in descending element size (else in the
/// given order) and the data start at a multiple of 64 bytes, so that every tensor is aligned for its element; the
/// format allows no padding between tensors. The same input gives the same bytes.
QKGEOM_INLINE void write_safetensors(atomic_file& file, std::vector<tensor_to_write> tensors,
                                     const std::map<std::string, std::string>& metadata = {});

/// Writes a whole safetensors file: it appears complete or not at all. Returns its SHA-256.
inline std::string write_safetensors(const std::filesystem::path& path, std::vector<tensor_to_write> tensors,
                                     const std::map<std::string, std::string>& metadata = {}) {
  sha256 digest;
  atomic_file file(path);
  file.digest_into(digest);
  write_safetensors(file, std::move(tensors), metadata);
  file.commit();
  return digest.hex();
}

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/io/detail/safetensors_writing.hpp"
#endif
