// SPDX-License-Identifier: MIT
// A table as a stream of Arrow's C data interface (arrow.apache.org/docs/format/CDataInterface.html): one batch.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "table.hpp"

struct ArrowSchema {
  const char *format, *name, *metadata;
  std::int64_t flags, n_children;
  ArrowSchema **children, *dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  std::int64_t length, null_count, offset, n_buffers, n_children;
  const void** buffers;
  ArrowArray **children, *dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};
struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema*);
  int (*get_next)(ArrowArrayStream*, ArrowArray*);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

namespace qkgeom::python {

namespace arrow {

/// Buffers of one column: validity bits, then values, or offsets and text.
struct column_buffers {
  std::vector<std::uint8_t> valid, bits;
  std::vector<std::int64_t> integers, offsets;
  std::vector<double> doubles;
  std::string text;
  std::int64_t nulls = 0;
  std::vector<const void*> pointers;

  explicit column_buffers(const table::column& c) : valid((c.cells.size() + 7) / 8) {
    if (c.kind == 1) bits.resize(valid.size());
    if (c.kind == 4) offsets.push_back(0);
    for (std::size_t i = 0; i < c.cells.size(); ++i) {
      const auto& x = c.cells[i];
      const auto bit = static_cast<std::uint8_t>(1u << (i % 8));
      const bool null = x.index() == 0;
      nulls += null;
      if (!null) valid[i / 8] = static_cast<std::uint8_t>(valid[i / 8] | bit);
      if (c.kind == 1 && !null && std::get<bool>(x)) bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | bit);
      if (c.kind == 2) integers.push_back(null ? 0 : number<std::int64_t>(x));
      if (c.kind == 3 || c.kind == 0) doubles.push_back(null ? 0 : number<double>(x));
      if (c.kind == 4) {
        if (!null) text += std::get<std::string>(x);
        offsets.push_back(static_cast<std::int64_t>(text.size()));
      }
    }
    pointers = {valid.data()};
    if (c.kind == 1) pointers.push_back(bits.data());
    if (c.kind == 2) pointers.push_back(integers.data());
    if (c.kind == 3 || c.kind == 0) pointers.push_back(doubles.data());
    if (c.kind == 4) pointers.insert(pointers.end(), {offsets.data(), text.data()});
  }
  column_buffers(const column_buffers&) = delete;

 private:
  template <class T>
  static T number(const table::cell& x) {
    if (const auto* b = std::get_if<bool>(&x)) return static_cast<T>(*b);
    if (const auto* i = std::get_if<std::int64_t>(&x)) return static_cast<T>(*i);
    return static_cast<T>(std::get<double>(x));
  }
};

struct owned_array {
  std::deque<column_buffers> columns;
  std::deque<ArrowArray> arrays;
  std::vector<ArrowArray*> children;
  const void* no_validity = nullptr;
};
struct owned_schema {
  std::deque<std::string> names;
  std::deque<ArrowSchema> schemas;
  std::vector<ArrowSchema*> children;
};
struct stream_state {
  table rows;
  bool done = false;
};

inline void release_child(ArrowArray* a) { a->release = nullptr; }
inline void release_child(ArrowSchema* s) { s->release = nullptr; }

template <class Owned, class Struct>
void release_owner(Struct* s) {
  auto* const owned = static_cast<Owned*>(s->private_data);
  for (auto* child : owned->children)
    if (child->release) child->release(child);
  delete owned;
  s->release = nullptr;
}

inline int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
  const auto& rows = static_cast<stream_state*>(stream->private_data)->rows;
  auto owned = std::make_unique<owned_schema>();
  for (const auto& c : rows.columns()) {
    constexpr const char* formats[] = {"g", "b", "l", "g", "U"};
    owned->names.push_back(c.name);
    owned->schemas.push_back(
        {formats[c.kind], owned->names.back().c_str(), nullptr, 2, 0, nullptr, nullptr, release_child, nullptr});
    owned->children.push_back(&owned->schemas.back());
  }
  *out = {"+s",
          "",
          nullptr,
          0,
          static_cast<std::int64_t>(owned->children.size()),
          owned->children.data(),
          nullptr,
          release_owner<owned_schema, ArrowSchema>,
          nullptr};
  out->private_data = owned.release();
  return 0;
}

inline int get_next(ArrowArrayStream* stream, ArrowArray* out) {
  auto& state = *static_cast<stream_state*>(stream->private_data);
  if (std::exchange(state.done, true)) {
    out->release = nullptr;  // the end
    return 0;
  }
  const auto n = static_cast<std::int64_t>(state.rows.rows());
  auto owned = std::make_unique<owned_array>();
  for (const auto& c : state.rows.columns()) {
    auto& b = owned->columns.emplace_back(c);
    owned->arrays.push_back({n, b.nulls, 0, static_cast<std::int64_t>(b.pointers.size()), 0, b.pointers.data(), nullptr,
                             nullptr, release_child, nullptr});
    owned->children.push_back(&owned->arrays.back());
  }
  *out = {n,
          0,
          0,
          1,
          static_cast<std::int64_t>(owned->children.size()),
          &owned->no_validity,
          owned->children.data(),
          nullptr,
          release_owner<owned_array, ArrowArray>,
          nullptr};
  out->private_data = owned.release();
  return 0;
}

}  // namespace arrow

/// A capsule "arrow_array_stream" of the table, which it copies.
inline nanobind::object arrow_stream(const table& rows) {
  auto stream = std::make_unique<ArrowArrayStream>();
  *stream = {arrow::get_schema, arrow::get_next, [](ArrowArrayStream*) -> const char* { return nullptr; },
             [](ArrowArrayStream* s) {
               delete static_cast<arrow::stream_state*>(s->private_data);
               s->release = nullptr;
             },
             new arrow::stream_state{rows}};
  PyObject* const capsule = PyCapsule_New(stream.get(), "arrow_array_stream", [](PyObject* c) {
    auto* const s = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(c, "arrow_array_stream"));
    if (s->release) s->release(s);
    delete s;
  });
  if (!capsule) {
    stream->release(stream.get());
    throw nanobind::python_error();
  }
  stream.release();
  return nanobind::steal(capsule);
}

}  // namespace qkgeom::python
