// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom::detail {

/// A tensor in the header of a safetensors file, not yet checked against the file.
struct tensor_header {
  std::string name, dtype;
  std::vector<index_t> shape;
  std::vector<std::uint64_t> offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

/// The contents of the JSON header of a safetensors file.
struct safetensors_header {
  std::map<std::string, std::string> metadata;
  std::vector<tensor_header> tensors;
};

/// Reads the JSON text of a header; throws `error` naming `file`.
QKGEOM_INLINE safetensors_header read_safetensors_header(std::string_view text, const std::string& file);

}  // namespace qkgeom::detail

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/io/detail/safetensors_header_reader.hpp"
#endif
