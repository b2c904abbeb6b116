// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkgeom/core/error.hpp"

namespace qkgeom {

// Values as bytes, for another process of the same build: no format for files. A struct is its members, by a function
// `with_members(x, f)` beside it or where it is used, which calls f with all of them in order; a structured binding
// there makes a member that is forgotten an error of the compiler.

/// T or const T: of the argument of `with_members`.
template <class T, class U>
concept some = std::same_as<std::remove_const_t<T>, U>;

namespace detail {

/// Values that are their bytes; structs of these have no padding.
template <class T>
concept plain = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::same_as<T, std::string_view>;

class byte_writer {
 public:
  template <class T>
  void put(const T& x) {
    if constexpr (plain<T>)
      append(&x, sizeof x);
    else
      with_members(x, [&](const auto&... member) { (put(member), ...); });
  }
  template <class T>
  void put(const std::vector<T>& x) {
    put(x.size());
    if constexpr (plain<T>)
      append(x.data(), x.size() * sizeof(T));
    else
      for (const auto& value : x) put(value);
  }
  template <class T>
  void put(const std::optional<T>& x) {
    put(x.has_value());
    if (x) put(*x);
  }

  std::string take() { return std::move(bytes_); }

 private:
  void append(const void* data, std::size_t size) {
    if (size > 0) bytes_.append(static_cast<const char*>(data), size);
  }

  std::string bytes_{};
};

class byte_reader {
 public:
  explicit byte_reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  void get(T& x) {
    if constexpr (plain<T>)
      take(&x, sizeof x);
    else
      with_members(x, [&](auto&... member) { (get(member), ...); });
  }
  template <class T>
  void get(std::vector<T>& x) {
    std::size_t size = 0;
    get(size);
    require(size <= bytes_.size(), "bytes of another process: ", size, " values in ", bytes_.size(), " bytes");
    x.resize(size);
    if constexpr (plain<T>)
      take(x.data(), size * sizeof(T));
    else
      for (auto& value : x) get(value);
  }
  template <class T>
  void get(std::optional<T>& x) {
    bool has_value = false;
    get(has_value);
    x.reset();
    if (has_value) get(x.emplace());
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  void take(void* data, std::size_t size) {
    require(size <= bytes_.size(), "bytes of another process end too early");
    if (size > 0) std::memcpy(data, bytes_.data(), size);
    bytes_.remove_prefix(size);
  }

  std::string_view bytes_;
};

}  // namespace detail

/// The bytes of plain values, of vectors and optional values, and of structs that have `with_members`.
template <class T>
std::string bytes_of(const T& x) {
  detail::byte_writer out;
  out.put(x);
  return out.take();
}

/// What `bytes_of` took, to the last bit. Throws `error` if these are other bytes.
template <class T>
T from_bytes(const std::string& bytes) {
  detail::byte_reader in(bytes);
  T x{};
  in.get(x);
  require(in.at_end(), "bytes of another process go on past their end");
  return x;
}

}  // namespace qkgeom
