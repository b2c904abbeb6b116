// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// Typed access to one JSON object of a model's folder. Every error names the file and the field. Keeps a reference to
/// the object: it must live longer. A field that is null counts as absent.
class json_fields {
 public:
  /// `where` names the file (and the field) in messages. Throws if `object` is none.
  json_fields(const nlohmann::json& object, std::string where) : object_(&object), where_(std::move(where)) {
    require(object.is_object(), where_, " must hold a JSON object");
  }
  const std::string& where() const { return where_; }
  const nlohmann::json& object() const { return *object_; }

  /// The field's value, or nullptr if it is absent or null.
  const nlohmann::json* find(const char* name) const {
    const auto i = object_->find(name);
    return i == object_->end() || i->is_null() ? nullptr : &*i;
  }
  std::optional<json_fields> child(const char* name) const {
    const auto* v = find(name);
    if (!v) return std::nullopt;
    return json_fields(*v, where_ + ": " + name);
  }
  std::optional<bool> boolean(const char* name) const {
    const auto* v = find(name);
    if (!v) return std::nullopt;
    require(v->is_boolean(), where_, ": ", name, " must be true or false, not ", shown(*v));
    return v->get<bool>();
  }
  std::optional<std::string> string(const char* name) const {
    const auto* v = find(name);
    if (!v) return std::nullopt;
    require(v->is_string(), where_, ": ", name, " must be a string, not ", shown(*v));
    return v->get<std::string>();
  }
  std::optional<double> number(const char* name) const {
    const auto* v = find(name);
    if (!v) return std::nullopt;
    require(v->is_number(), where_, ": ", name, " must be a number, not ", shown(*v));
    return v->get<double>();
  }
  std::optional<double> positive(const char* name) const {
    const auto x = number(name);
    require(!x || (*x > 0 && std::isfinite(*x)), where_, ": ", name, " must be positive, not ", x.value_or(0));
    return x;
  }
  /// An integer within [low, high].
  std::optional<index_t> integer(const char* name, index_t low, index_t high) const {
    const auto* v = find(name);
    if (!v) return std::nullopt;
    const bool fits = v->is_number_integer() && (!v->is_number_unsigned() || v->get<std::uint64_t>() <= INT64_MAX) &&
                      v->get<index_t>() >= low && v->get<index_t>() <= high;
    require(fits, where_, ": ", name, " must be an integer from ", low, " to ", high, ", not ", shown(*v));
    return v->get<index_t>();
  }
  index_t required_integer(const char* name, index_t low, index_t high) const {
    const auto v = integer(name, low, high);
    require(v.has_value(), where_, " has no field ", name);
    return *v;
  }
  std::string required_string(const char* name) const {
    const auto v = string(name);
    require(v.has_value(), where_, " has no field ", name);
    return *v;
  }

 private:
  static std::string shown(const nlohmann::json& v) {
    std::string text = v.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return text;
  }

  const nlohmann::json* object_;
  std::string where_;
};

}  // namespace qkgeom
