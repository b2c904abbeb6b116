// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>
#if __has_include(<xtensor/containers/xarray.hpp>)  // xtensor 0.26 put its headers into folders
#include <xtensor/containers/xarray.hpp>
#include <xtensor/io/xnpy.hpp>
#else
#include <xtensor/xarray.hpp>
#include <xtensor/xnpy.hpp>
#endif

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom {

namespace detail {

struct npy_header {
  std::string type;  // in NumPy's notation, e.g. "<f8"
  bool column_major = false;
  std::vector<std::size_t> shape;
};

/// Reads the header of a mapped NumPy file; returns it and the offset of the data.
std::pair<npy_header, std::size_t> read_npy_header(const mapped_file& file, const std::string& where);

}  // namespace detail

/// Writes an xtensor expression of any rank as a NumPy file, whole or not at all.
template <class E>
void save_npy(const std::filesystem::path& path, const xt::xexpression<E>& values) {
  // Evaluate first: xtensor 0.24 writes a wrong shape for some expressions.
  const xt::xarray<typename E::value_type> array = values.derived_cast();
  write_text(path, xt::dump_npy(array));
}

/// Reads a NumPy file of elements T into a row-major array. Throws `error` naming the file if it is damaged, cut short
/// or of another type.
template <class T>
xt::xarray<T> load_npy(const std::filesystem::path& path) {
  const mapped_file file(path);
  const std::string where = path.string(), type = xt::detail::build_typestring<T>();
  const auto parsed = detail::read_npy_header(file, where);
  const auto& header = parsed.first;
  require(header.type == type, where, ": the elements must have type ", type, ", not ", printable(header.type));
  index_t bytes = sizeof(T);
  bool fits = true;
  for (const std::size_t n : header.shape)
    fits = fits && !__builtin_mul_overflow(bytes, static_cast<index_t>(n), &bytes);
  const auto data = file.bytes().subspan(parsed.second);
  const std::size_t there = data.size();
  require(fits && static_cast<std::size_t>(bytes) == there, where, ": the shape in the header needs ",
          fits ? std::to_string(bytes) : "far too many", " bytes, the file has ", there);
  const auto fill = [&](auto array) {
    if (there > 0) std::memcpy(array.data(), data.data(), there);
    return array;
  };
  if (!header.column_major) return fill(xt::xarray<T>(header.shape));
  return fill(xt::xarray<T, xt::layout_type::column_major>(header.shape));
}

}  // namespace qkgeom
