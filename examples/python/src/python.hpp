// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "pickle.hpp"

namespace qkgeom::python {

namespace nb = nanobind;
using shape_type = std::vector<std::size_t>;

void bind_results(nb::module_& m);
void bind_analysis(nb::module_& m);
void bind_captures(nb::module_& m);
void bind_pages(nb::module_& m);
void bind_programs(nb::module_& m);

/// An array of NumPy's that owns the values.
template <class T>
nb::ndarray<nb::numpy, T> array_of(std::vector<T> values, const shape_type& shape) {
  auto* const kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return {kept->data(), shape.size(), shape.data(), owner};
}

/// A class whose fields have the C++ names; its repr shows them.
template <class T>
class record : public nb::class_<T> {
 public:
  record(nb::module_& m, const char* name, const char* doc) : nb::class_<T>(m, name, doc) {
    this->def(
        "__repr__", [](nb::handle self) { return nb::module_::import_("qkgeom._show").attr("show")(self); },
        nb::sig("def __repr__(self) -> str"));
    this->attr("_fields") = nb::tuple();
    bind_pickle<T>(*this);
  }
  /// Members of the record that pickles hold beside its fields.
  template <class... Members>
  record& kept(Members T::*... members) {
    (pickled_members<T>.push_back([members](pickle& p, T& x) { exchange(p, x.*members); }), ...);
    return *this;
  }
  template <class F, class... Doc>
  record& field(const char* name, F&& member, const Doc&... doc) {
    named(name);
    if constexpr (std::is_member_object_pointer_v<std::remove_cvref_t<F>>)
      kept(member).def_ro(name, member, doc...);
    else
      this->def_prop_ro(name, std::forward<F>(member), nb::rv_policy::automatic, doc...);
    return *this;
  }
  /// A vector of the record as an array that views it; shape(record) gives its shape, by default (n).
  record& array(const char* name, std::vector<double> T::*values, const char* doc) {
    return array(
        name, values, [values](const T& x) { return shape_type{(x.*values).size()}; }, doc);
  }
  template <class Shape>
  record& array(const char* name, std::vector<double> T::*values, Shape shape, const char* doc) {
    named(name).kept(values);
    this->def_prop_ro(
        name,
        [values, shape](nb::handle self) {
          const T& x = nb::cast<const T&>(self);
          const shape_type sizes = shape(x);
          return nb::ndarray<nb::numpy, const double>((x.*values).data(), sizes.size(), sizes.data(), self);
        },
        doc);
    return *this;
  }

 private:
  record& named(const char* name) {
    this->attr("_fields") = nb::object(this->attr("_fields")) + nb::make_tuple(name);
    return *this;
  }
};

}  // namespace qkgeom::python
