// SPDX-License-Identifier: MIT
// Pickles of results: the members of a class one after another, as bytes.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom::python {

/// The bytes of a pickle while they are written, or read from the front.
struct pickle {
  std::string bytes;
  bool reading = false;
  std::size_t at = 0;

  std::size_t left() const { return bytes.size() - at; }
  void raw(void* x, std::size_t n) {
    if (!reading) {
      bytes.append(static_cast<const char*>(x), n);
      return;
    }
    require(n <= left(), "this pickle is damaged");
    std::memcpy(x, bytes.data() + at, n);
    at += n;
  }
};

/// Hands each member that a pickle of T holds to `exchange`.
template <class T>
inline std::vector<std::function<void(pickle&, T&)>> pickled_members;

/// Writes x, or reads it.
template <class T>
void exchange(pickle& p, T& x) {
  if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    p.raw(&x, sizeof x);
  } else if constexpr (std::is_same_v<T, bucket_edges>) {
    auto edges = x.edges();
    exchange(p, edges);
    if (p.reading) x = bucket_edges(edges);
  } else if constexpr (std::is_same_v<T, std::monostate>) {
  } else if constexpr (requires { x.has_value(); }) {
    bool there = x.has_value();
    exchange(p, there);
    if (p.reading && there) x.emplace();
    if (there) exchange(p, *x);
  } else if constexpr (requires { x.valueless_by_exception(); }) {
    auto kind = x.index();
    exchange(p, kind);
    const auto take = [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((kind == I ? (p.reading ? void(x.template emplace<I>()) : void(), exchange(p, std::get<I>(x))) : void()), ...);
    };
    take(std::make_index_sequence<std::variant_size_v<T>>());
  } else if constexpr (requires { x.resize(1); }) {
    std::uint64_t n = x.size();
    exchange(p, n);
    require(!p.reading || n <= p.left(), "this pickle is damaged");  // an element has at least a byte
    x.resize(n);
    if constexpr (std::is_arithmetic_v<typename T::value_type>)
      p.raw(x.data(), n * sizeof(typename T::value_type));
    else
      for (auto& one : x) exchange(p, one);
  } else {
    for (const auto& member : pickled_members<T>) member(p, x);
  }
}

/// Gives a bound class pickles, for the version of qkgeom that wrote them.
template <class T>
void bind_pickle(nanobind::class_<T>& c) {
  namespace nb = nanobind;
  const auto header = [](pickle& p) {
    std::string version = QKGEOM_VERSION;
    exchange(p, version);
    require(version == QKGEOM_VERSION, "this pickle is of qkgeom ", version, ", and this is ", QKGEOM_VERSION);
  };
  c.def(
      "__getstate__",
      [header](T x) {
        pickle p;
        header(p);
        exchange(p, x);
        return nb::bytes(p.bytes.data(), p.bytes.size());
      },
      nb::sig("def __getstate__(self) -> bytes"));
  c.def(
      "__setstate__",
      [header](T& x, const nb::bytes& state) {
        pickle p{{state.c_str(), state.size()}, true};
        header(p);
        T read{};
        exchange(p, read);
        require(p.left() == 0, "this pickle is damaged");
        new (&x) T(std::move(read));
      },
      nb::sig("def __setstate__(self, state: bytes, /) -> None"));
}

}  // namespace qkgeom::python
