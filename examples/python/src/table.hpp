// SPDX-License-Identifier: MIT
// Tables of the library by columns, and as a stream of Arrow's C data interface
// (arrow.apache.org/docs/format/CDataInterface.html): one batch.
#pragma once

#include <nanobind/nanobind.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "qkgeom/io/csv.hpp"

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

/// A table in memory, by columns. Null and NaN are null.
class table {
 public:
  using cell = table_field;
  struct column {
    std::string name;
    std::size_t kind = 3;  ///< index in `cell`; integers may stand among doubles
    bool may_be_missing = false;
    std::vector<cell> cells{};
  };

  table() = default;
  explicit table(const qkgeom::table& from) {
    for (const auto& c : from.columns) columns_.push_back({c.name, c.type, c.may_be_missing});
    from.rows([&](const std::vector<cell>& fields) {
      for (std::size_t i = 0; i < fields.size(); ++i) {
        const auto* number = std::get_if<double>(&fields[i]);
        columns_[i].cells.push_back(number && std::isnan(*number) ? cell() : fields[i]);
      }
    });
  }

  std::size_t rows() const { return columns_.empty() ? 0 : columns_[0].cells.size(); }
  const std::vector<column>& columns() const { return columns_; }
  std::vector<column>& columns() { return columns_; }

 private:
  std::vector<column> columns_;
};

namespace arrow {

/// Bytes of one column: validity bits, then values, or the ends of texts and the texts.
struct column_buffers {
  std::string valid, values, text;
  std::int64_t nulls = 0;
  std::vector<const void*> pointers;

  explicit column_buffers(const table::column& c) : valid((c.cells.size() + 7) / 8, '\0') {
    if (c.kind == 1) values = valid;
    if (c.kind == 4) append(std::int64_t{0});
    for (std::size_t i = 0; i < c.cells.size(); ++i) {
      const auto& x = c.cells[i];
      const auto set = [i](std::string& bits) { bits[i / 8] = static_cast<char>(bits[i / 8] | (1 << (i % 8))); };
      if (x.index() == 0)
        ++nulls;
      else
        set(valid);
      if (c.kind == 1) {
        if (number<bool>(x)) set(values);
      } else if (c.kind == 2) {
        append(number<std::int64_t>(x));
      } else if (c.kind == 4) {
        if (const auto* words = std::get_if<std::string>(&x)) text += *words;
        append(static_cast<std::int64_t>(text.size()));
      } else {
        append(number<double>(x));
      }
    }
    pointers = {valid.data(), values.data()};
    if (c.kind == 4) pointers.push_back(text.data());
  }
  column_buffers(const column_buffers&) = delete;

 private:
  template <class T>
  void append(T x) {
    values.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  /// The number in a cell; 0 for null.
  template <class T>
  static T number(const table::cell& x) {
    if (const auto* b = std::get_if<bool>(&x)) return static_cast<T>(*b);
    if (const auto* i = std::get_if<std::int64_t>(&x)) return static_cast<T>(*i);
    const auto* d = std::get_if<double>(&x);
    return d ? static_cast<T>(*d) : T{};
  }
};

/// Owns the children of an ArrowSchema or ArrowArray and what they point to.
template <class Struct, class Data>
struct owner {
  std::deque<Data> data;
  std::deque<Struct> structs;
  std::vector<Struct*> children;
  const void* no_validity = nullptr;

  static void release_child(Struct* s) { s->release = nullptr; }
  static void release(Struct* s) {
    auto* const owned = static_cast<owner*>(s->private_data);
    for (auto* child : owned->children)
      if (child->release) child->release(child);
    delete owned;
    s->release = nullptr;
  }
  void add(const Struct& child) {
    structs.push_back(child);
    structs.back().release = release_child;
    children.push_back(&structs.back());
  }
};
using schema_owner = owner<ArrowSchema, std::string>;
using array_owner = owner<ArrowArray, column_buffers>;

struct stream_state {
  table rows;
  bool done = false;
};

inline int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
  auto owned = std::make_unique<schema_owner>();
  for (const auto& c : static_cast<stream_state*>(stream->private_data)->rows.columns()) {
    constexpr const char* formats[] = {"", "b", "l", "g", "U"};
    constexpr std::int64_t nullable = 2;
    const auto& name = owned->data.emplace_back(c.name);
    owned->add({.format = formats[c.kind], .name = name.c_str(), .flags = nullable});
  }
  *out = {.format = "+s", .name = "", .n_children = std::ssize(owned->children), .children = owned->children.data()};
  out->release = schema_owner::release;
  out->private_data = owned.release();
  return 0;
}

inline int get_next(ArrowArrayStream* stream, ArrowArray* out) {
  auto& state = *static_cast<stream_state*>(stream->private_data);
  *out = {};
  if (std::exchange(state.done, true)) return 0;  // the end
  const auto n = static_cast<std::int64_t>(state.rows.rows());
  auto owned = std::make_unique<array_owner>();
  for (const auto& c : state.rows.columns()) {
    auto& b = owned->data.emplace_back(c);
    owned->add({.length = n, .null_count = b.nulls, .n_buffers = std::ssize(b.pointers), .buffers = b.pointers.data()});
  }
  *out = {.length = n,
          .n_buffers = 1,
          .n_children = std::ssize(owned->children),
          .buffers = &owned->no_validity,
          .children = owned->children.data()};
  out->release = array_owner::release;
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
