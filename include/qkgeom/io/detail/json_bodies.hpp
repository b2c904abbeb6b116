// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/core/budget.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {

namespace detail {

/// Builds a document event by event and refuses what `parse_json` refuses.
class json_builder : public nlohmann::json_sax<json> {
 public:
  json_builder(const std::string& where, int max_depth)
      : where_(where),
        max_depth_(max_depth),
        values_(max_json_values, where + ": the JSON has more than " + std::to_string(max_json_values) + " values") {}

  json document;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(json::binary_t&) override { return false; }  // JSON text has none
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    const auto [field, fresh] = open_.back()->get_ref<json::object_t&>().try_emplace(std::move(name));
    require(fresh, where_, ": the JSON names the field \"", printable(field->first), "\" twice");
    field_ = &field->second;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail(where_, ": not valid JSON at byte ", position);
  }

 private:
  /// Puts a value where it belongs: as the document, at the end of the open list, or into the field named last.
  json* place(json&& value) {
    values_.spend(1);
    if (open_.empty()) return &(document = std::move(value));
    if (!open_.back()->is_array()) return &(*field_ = std::move(value));
    open_.back()->push_back(std::move(value));
    return &open_.back()->back();
  }
  bool add(json&& value) { return place(std::move(value)) != nullptr; }
  bool open(json&& value) {
    require(static_cast<int>(open_.size()) < max_depth_, where_, ": the JSON is nested deeper than ", max_depth_,
            " levels");
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& where_;
  int max_depth_;
  budget values_;
  std::vector<json*> open_{};  // objects and lists that have begun and not ended, from the outermost
  json* field_ = nullptr;
};

}  // namespace detail

QKGEOM_INLINE json parse_json(std::string_view text, const std::string& where, int max_depth) {
  const std::size_t nul = text.find('\0');  // where the parser would take the text to end
  require(nul == std::string_view::npos, where, ": not valid JSON at byte ", nul + 1, ", which is NUL");
  detail::json_builder builder(where, max_depth);
  json::sax_parse(text, &builder);
  return std::move(builder.document);
}

}  // namespace qkgeom
