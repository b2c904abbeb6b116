// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/core/budget.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/detail/safetensors_header.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom::detail {

/// Reads the JSON header of a safetensors file event by event, without a document in memory. Throws `error` naming the
/// file at other types, deep nesting, long shapes or a name given twice. Unknown fields of a tensor are skipped.
class safetensors_header_reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit safetensors_header_reader(const std::string& file)
      : file_(file),
        entries_(max_entries, file + ": the header has more than " + std::to_string(max_entries) + " entries") {}

  std::map<std::string, std::string> metadata;
  std::vector<tensor_header> tensors;

  bool start_object(std::size_t) override {
    if (skipping()) return deeper();
    switch (state_) {
      case state::before:
        state_ = state::top;
        return true;
      case state::top:
        state_ = key_ == "__metadata__" ? state::metadata : state::tensor;
        if (state_ == state::tensor) tensors.emplace_back().name = key_;
        return true;
      default:
        unexpected("an object");
    }
  }
  bool end_object() override {
    if (skip_ > 0) return --skip_, true;
    if (state_ == state::tensor) finish_tensor();
    state_ = state_ == state::top ? state::after : state::top;
    return true;
  }
  bool start_array(std::size_t) override {
    if (skipping()) return deeper();
    if (state_ == state::tensor && key_ == "shape") return state_ = state::shape, true;
    if (state_ == state::tensor && key_ == "data_offsets") return state_ = state::offsets, true;
    unexpected("a list");
  }
  bool end_array() override {
    if (skip_ > 0) return --skip_, true;
    (state_ == state::shape ? tensors.back().has_shape : tensors.back().has_offsets) = true;
    state_ = state::tensor;
    return true;
  }
  bool key(std::string& name) override {
    if (skip_ > 0) return true;
    key_ = name;
    if (state_ == state::top || state_ == state::metadata) {
      entries_.spend(1);
      require(name.size() <= max_name_bytes, file_, ": the header has a name of ", name.size(),
              " bytes, more than the ", max_name_bytes, " allowed");
    }
    if (state_ == state::top) require(names_.insert(name).second, file_, ": the header names ", shown(name), " twice");
    if (state_ == state::metadata)
      require(metadata.emplace(name, std::string()).second, file_, ": the metadata name ", shown(name), " twice");
    if (state_ == state::tensor) {
      auto& t = tensors.back();
      require(!(name == "dtype" && t.has_dtype) && !(name == "shape" && t.has_shape) &&
                  !(name == "data_offsets" && t.has_offsets),
              file_, ": tensor ", shown(t.name), " has two fields ", name);
    }
    return true;
  }
  bool string(std::string& value) override {
    if (skipping()) return true;
    if (state_ == state::metadata) return metadata[key_] = std::move(value), true;
    if (state_ != state::tensor || key_ != "dtype") unexpected("a string");
    tensors.back().dtype = std::move(value);
    return tensors.back().has_dtype = true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (skipping()) return true;
    constexpr std::size_t max_rank = 64;
    if (state_ == state::shape) {
      auto& t = tensors.back();
      require(t.shape.size() < max_rank, file_, ": tensor ", shown(t.name), " has more than ", max_rank, " axes");
      require(value <= std::uint64_t{INT64_MAX}, file_, ": the shape of tensor ", shown(t.name), " holds ", value);
      t.shape.push_back(static_cast<index_t>(value));
    } else if (state_ == state::offsets) {
      auto& t = tensors.back();
      require(t.offsets.size() < 2, file_, ": data_offsets of tensor ", shown(t.name), " has more than two entries");
      t.offsets.push_back(value);
    } else {
      unexpected("a number");
    }
    return true;
  }
  bool number_integer(std::int64_t) override { return skipping() || unexpected("a negative number"); }
  bool number_float(double, const std::string&) override { return skipping() || unexpected("a fraction"); }
  bool null() override { return skipping() || unexpected("null"); }
  bool boolean(bool) override { return skipping() || unexpected("a truth value"); }
  bool binary(nlohmann::json::binary_t&) override { return skipping() || unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail(file_, ": the header is not valid JSON at byte ", position, " (not a safetensors file, or a damaged one)");
  }

  bool complete() const { return state_ == state::after; }

 private:
  static constexpr std::size_t max_entries = 1'000'000;  // tensors and metadata; each takes up to 500 bytes of memory
  enum class state { before, top, metadata, tensor, shape, offsets, after };

  /// True inside an unknown field of a tensor.
  bool skipping() const {
    return skip_ > 0 || (state_ == state::tensor && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets");
  }
  bool deeper() {
    require(++skip_ < 64, file_, ": the header is nested too deeply");
    return true;
  }
  [[noreturn]] bool unexpected(const char* what) const {
    if (state_ == state::before) fail(file_, ": the header is ", what, " where a safetensors file has an object");
    if (state_ == state::top) fail(file_, ": the header entry ", shown(key_), " is ", what, " instead of an object");
    if (state_ == state::metadata)
      fail(file_, ": the metadata field ", shown(key_), " is ", what, " instead of a string");
    fail(file_, ": ", key_, " of tensor ", shown(tensors.back().name), " holds ", what);
  }
  void finish_tensor() const {
    const auto& t = tensors.back();
    require(t.has_dtype && t.has_shape && t.has_offsets, file_, ": tensor ", shown(t.name), " has no ",
            !t.has_dtype   ? "dtype"
            : !t.has_shape ? "shape"
                           : "data_offsets");
    require(t.offsets.size() == 2, file_, ": data_offsets of tensor ", shown(t.name), " must have two entries, not ",
            t.offsets.size());
  }
  static std::string shown(const std::string& name) { return '"' + printable(name) + '"'; }

  const std::string& file_;
  std::string key_;
  budget entries_;
  std::set<std::string> names_;
  state state_ = state::before;
  int skip_ = 0;
};

QKGEOM_INLINE safetensors_header read_safetensors_header(std::string_view text, const std::string& file) {
  const std::size_t nul = text.find('\0');  // where the parser would take the text to end
  require(nul == std::string_view::npos, file, ": the header is not valid JSON at byte ", nul + 1, ", which is NUL");
  safetensors_header_reader reader(file);
  nlohmann::json::sax_parse(text, &reader);
  require(reader.complete(), file, ": the header is not a JSON object");
  return {std::move(reader.metadata), std::move(reader.tensors)};
}

}  // namespace qkgeom::detail
