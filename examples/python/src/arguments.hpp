// SPDX-License-Identifier: MIT
// Arguments from Python: arrays, viewed where they lie, and options.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "on_cuda.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/report/head_report.hpp"

namespace qkgeom::python {

namespace nb = nanobind;
using any_array = nb::ndarray<nb::ro>;

/// As `require`, but Python gets a TypeError.
template <class... Parts>
void require_type(bool condition, const Parts&... parts) {
  if (condition) return;
  std::ostringstream text;
  (text << ... << parts);
  throw nb::type_error(text.str().c_str());
}
inline std::string class_name_of(nb::handle x) { return nb::cast<std::string>(nb::str(x.type().attr("__name__"))); }

/// Shape, dtype and strides of an array, for messages.
inline std::string text_of(const any_array& x) {
  const auto t = x.dtype();
  const auto code = static_cast<nb::dlpack::dtype_code>(t.code);
  std::ostringstream s;
  const auto list = [&](const char* name, auto value) {
    s << name << " (";
    for (std::size_t i = 0; i < x.ndim(); ++i) s << (i ? ", " : "") << value(i);
    s << ")";
  };
  list("shape", [&](std::size_t i) { return x.shape(i); });
  using enum nb::dlpack::dtype_code;
  s << ", dtype "
    << (code == Float    ? "float"
        : code == Bfloat ? "bfloat"
        : code == Int    ? "int"
        : code == UInt   ? "uint"
        : code == Bool   ? "bool"
                         : "other ")
    << int{t.bits} << " and ";
  list("strides", [&](std::size_t i) { return x.stride(i); });
  return s.str();
}

/// The library for tensors on a CUDA device. Throws `error`, naming the argument that needs it, where there is none.
cuda_calls& cuda_library(const char* argument);
/// Where a CUDA tensor lies. The stream is PyTorch's current one if the program uses PyTorch; else the default stream,
/// which DLPack's producer has made wait.
cuda_place place_of(const any_array& x);
/// Copies a CUDA tensor of any shape without gaps.
void copy_to_host(const any_array& x, void* to, std::size_t bytes, const char* argument);

inline bool on_cuda(const any_array& x) { return x.device_type() == nb::device::cuda::value; }

/// Which memory a call reads.
enum class readable { host, host_or_cuda };

/// Casts x to an array of numbers without a copy, or what numpy.asarray makes of it: lists, ranges, columns of pandas.
inline bool cast_array(nb::handle x, any_array& a) {
  if (nb::try_cast(x, a, false) && a.is_valid()) return true;
  try {
    const nb::object made = nb::module_::import_("numpy").attr("asarray")(x);
    return nb::try_cast(made, a, false) && a.is_valid();
  } catch (const nb::python_error&) {  // rows of different lengths
    return false;
  }
}

/// An array that Python holds in memory that the call reads, without a copy where it can be viewed. Throws TypeError or
/// `error`, naming the argument.
inline any_array take_array(nb::handle x, const char* name, readable memory) {
  any_array a;
  if (nb::hasattr(x, "requires_grad") && nb::cast<bool>(x.attr("requires_grad")))
    fail(name, " is part of a graph of gradients: pass ", name, ".detach()");
  require(class_name_of(x) != "MaskedArray", name, " is a masked array, whose mask is not read: pass ", name,
          ".filled(...), or the rows that count");
  if (!cast_array(x, a)) {
    auto found = class_name_of(x);
    if (nb::hasattr(x, "dtype")) found += " of dtype " + nb::cast<std::string>(nb::str(nb::object(x.attr("dtype"))));
    require_type(
        false, name,
        " must be an array of numbers (NumPy, PyTorch, JAX: the array protocol or DLPack) or a list of them, not ",
        found);
  }
  if (memory == readable::host_or_cuda && on_cuda(a))
    cuda_library(name);  // or throws
  else
    require(a.device_type() == nb::device::cpu::value, name, " lies on a device (DLPack device type ", a.device_type(),
            "), where this call does not read it: pass ", name, ".cpu()");
  return a;
}

/// Returns whether the elements are integers, signed or not.
inline bool holds_integers(const any_array& x) {
  const auto code = static_cast<nb::dlpack::dtype_code>(x.dtype().code);
  return code == nb::dlpack::dtype_code::Int || code == nb::dlpack::dtype_code::UInt;
}

/// Rows of one head (n, d) or of a layer (n, heads, d), viewed where they lie; integers are copied as f64.
struct array_rows {
  any_array array;
  const char* name;
  dtype element = dtype::f32;
  bool one_head = false;

  array_rows(nb::handle x, const char* of, readable memory = readable::host)
      : array(take_array(x, of, memory)), name(of) {
    if (holds_integers(array) && !on_cuda(array))
      array = take_array(nb::module_::import_("numpy").attr("asarray")(x, "float64"), of, memory);
    const auto t = array.dtype();
    const auto code = static_cast<nb::dlpack::dtype_code>(t.code);
    one_head = array.ndim() == 2;
    using enum nb::dlpack::dtype_code;
    require_type((code == Float && (t.bits == 64 || t.bits == 32 || t.bits == 16)) || (code == Bfloat && t.bits == 16),
                 name, " must hold float64, float32, float16 or bfloat16, but it has ", text_of(array));
    element = code == Bfloat ? dtype::bf16 : t.bits == 64 ? dtype::f64 : t.bits == 32 ? dtype::f32 : dtype::f16;
    require(array.ndim() == 2 || array.ndim() == 3, name, " must be (rows, d) or (rows, heads, d), but it has ",
            text_of(array));
    const auto d = array.ndim() - 1;
    require(array.shape(0) == 0 || array.shape(d) < 2 || array.stride(d) == 1, name,
            " cannot be viewed: the numbers of a row must follow one another, as numpy.ascontiguousarray copies them, "
            "but it "
            "has ",
            text_of(array));
  }

  index_t rows() const { return static_cast<index_t>(array.shape(0)); }
  index_t heads() const { return one_head ? 1 : static_cast<index_t>(array.shape(1)); }
  template <class T, memory_space S = memory_space::host>
  tensor_view<const T, S> view() const {
    const auto d = static_cast<index_t>(array.shape(array.ndim() - 1));
    return {static_cast<const T*>(array.data()),    rows(), heads(), d, array.stride(0),
            one_head ? d : index_t{array.stride(1)}};
  }
};

/// Integers (n) in host memory: i32 in place, other types converted, those of a CUDA device copied.
class array_ints {
 public:
  array_ints(nb::handle x, const char* name, readable memory = readable::host) : array_(take_array(x, name, memory)) {
    const auto t = array_.dtype();
    require_type(holds_integers(array_), name, " must hold integers, but it has ", text_of(array_));
    require(array_.ndim() == 1, name, " must be (rows), but it has ", text_of(array_));
    const auto n = static_cast<index_t>(array_.shape(0));
    const index_t step = n > 1 ? array_.stride(0) : 1;
    const void* data = array_.data();
    std::vector<std::int64_t> copied;  // in 64-bit steps, for its alignment
    if (on_cuda(array_)) {
      require(step == 1, name, " on a device must have no gaps, but it has ", text_of(array_));
      copied.resize(n);
      copy_to_host(array_, copied.data(), n * (t.bits / 8), name);
      data = copied.data();
    }
    const bool is_signed = static_cast<nb::dlpack::dtype_code>(t.code) == nb::dlpack::dtype_code::Int;
    if (is_signed && t.bits == 32 && step == 1 && copied.empty()) {
      view_ = {static_cast<const std::int32_t*>(data), n};
      return;
    }
    own_.resize(n);
    const auto convert = [&]<class Int>(Int) {
      for (index_t i = 0; i < n; ++i) {
        const Int v = static_cast<const Int*>(data)[i * step];
        require(std::in_range<std::int32_t>(v), name, " holds ", +v, " at row ", i, ", which 32 bits do not hold");
        own_[i] = static_cast<std::int32_t>(v);
      }
    };
    if (t.bits == 8)
      is_signed ? convert(std::int8_t{}) : convert(std::uint8_t{});
    else if (t.bits == 16)
      is_signed ? convert(std::int16_t{}) : convert(std::uint16_t{});
    else if (t.bits == 32)
      is_signed ? convert(std::int32_t{}) : convert(std::uint32_t{});
    else
      is_signed ? convert(std::int64_t{}) : convert(std::uint64_t{});
    view_ = {own_.data(), n};
  }
  /// The multiples 0, step, 2 step, ... of `step`, n of them.
  array_ints(index_t n, std::int32_t step) : own_(n) {
    for (index_t i = 0; i < n; ++i) own_[i] = static_cast<std::int32_t>(i) * step;
    view_ = {own_.data(), n};
  }
  array_ints(const array_ints&) = delete;

  vector_view<const std::int32_t> view() const { return view_; }

 private:
  any_array array_;
  std::vector<std::int32_t> own_;
  vector_view<const std::int32_t> view_;
};

/// Queries and keys of a head or a layer with their positions and documents, as Python gives them.
struct array_layer {
  array_rows q, k;
  array_ints positions, documents;
  std::optional<array_ints> key_positions, key_documents;
  std::optional<index_t> window;

  array_layer(nb::handle q_, nb::handle k_, nb::handle positions_, nb::handle documents_, nb::handle key_positions_,
              nb::handle key_documents_, std::optional<index_t> window_);

  template <class T>
  layer_view<T> view() const {
    return {q.view<T>(),  positions.view(), documents.view(), k.view<T>(),
            k_position(), k_document(),     key_of_query(),   window};
  }
  /// Whether q and k lie on a CUDA device; then `on_device` gives them, else `view` and `visit`.
  bool on_cuda() const { return python::on_cuda(q.array); }
  cuda_rows on_device() const;
  /// One past the last position.
  index_t length() const;
  /// Calls f(layer_view<T>) with the element type.
  template <class F>
  decltype(auto) visit(F&& f) const {
    return visit_element_type(q.element, [&]<class T>() -> decltype(auto) { return f(view<T>()); });
  }

 private:
  vector_view<const std::int32_t> k_position() const {
    return key_positions ? key_positions->view() : positions.view();
  }
  vector_view<const std::int32_t> k_document() const {
    return key_documents ? key_documents->view() : documents.view();
  }
  std::vector<index_t> key_of_query() const {
    std::vector<index_t> key;
    for (index_t h = 0; h < q.heads(); ++h) key.push_back(h / (q.heads() / k.heads()));
    return key;
  }
};

/// Query buckets: a width in tokens, or ascending edges; no value: the capture's own, or a sixteenth of the context.
using buckets_argument = std::optional<std::variant<index_t, std::vector<index_t>>>;

/// Adds a note on results that are missing.
inline void note_missing(model_report& report, const std::string& text) {
  report.notes.push_back({"missing", text, ""});
}
/// Notes that no query bucket of any head has pairs of keys.
inline void note_pairs(model_report& report) {
  const auto has_pairs = [](const head_report& h) {
    return h.profiles.empty() || std::any_of(h.profiles[0].buckets.begin(), h.profiles[0].buckets.end(),
                                             [](const profile_bucket& b) { return b.pairs > 0; });
  };
  if (!report.heads.empty() && std::none_of(report.heads.begin(), report.heads.end(), has_pairs))
    note_missing(report,
                 "plasticity is NaN everywhere: it is over the keys before a query bucket, and no bucket with queries "
                 "has two. Give smaller buckets (here " +
                     std::to_string(report.buckets.count()) + "), or longer documents");
}

/// Query models: one, or several.
using covariance_argument = std::variant<std::string, std::vector<std::string>>;
inline std::vector<std::string> names_of(const covariance_argument& covariance) {
  if (const auto* one = std::get_if<std::string>(&covariance)) return {*one};
  return std::get<std::vector<std::string>>(covariance);
}

inline covariance_kind covariance_of(const std::string& name) {
  for (const covariance_kind kind : all_covariance_kinds)
    if (name == name_of(kind)) return kind;
  fail("covariance must be diagonal, full, joint, linear_drift or empirical, not ", name);
}

/// The options that `analyse` and `open` share.
inline analysis_options options_of(const buckets_argument& buckets, const std::vector<std::string>& covariance,
                                   const std::string& pairs, index_t sampled_pairs, bool heatmap, std::uint64_t seed) {
  analysis_options o;
  if (const auto* edges = buckets ? std::get_if<std::vector<index_t>>(&*buckets) : nullptr) o.bucket_edges = *edges;
  if (const auto* width = buckets ? std::get_if<index_t>(&*buckets) : nullptr) {
    o.bucket_size = *width;
    require(o.bucket_size > 0, "buckets must be a width of at least 1 token or ascending edges, not ", o.bucket_size);
  }
  o.covariances.clear();
  for (const auto& name : covariance)
    if (name != "empirical") o.covariances.push_back(covariance_of(name));
  require(!o.covariances.empty(), "covariance must name a query model beside empirical, e.g. joint");
  if (pairs == "per_document")
    o.weighting = pair_weighting::documents;
  else if (pairs == "prefix_uniform")
    o.weighting = pair_weighting::prefix_uniform;
  else
    require(pairs == "all", "pairs must be all, per_document or prefix_uniform, not ", pairs);
  require(sampled_pairs == 0 || sampled_pairs >= 2, "sampled_pairs must be 0 or at least 2 pairs a query bucket, not ",
          sampled_pairs);
  // The empirical form is over all pairs alone.
  o.empirical = o.covariances.size() < covariance.size() && o.weighting == pair_weighting::pairs;
  o.sampled_pairs = sampled_pairs;
  o.heatmap = heatmap;
  o.seed = seed;
  return o;
}

}  // namespace qkgeom::python
