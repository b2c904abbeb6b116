// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/file.hpp"

namespace qkgeom {

using json = nlohmann::json;

/// Most values of a JSON document, fields and entries at any depth. A value takes up to 100 bytes of memory besides its
/// text; the largest tokenizers have 2 million.
inline constexpr std::size_t max_json_values = 4'000'000;

/// Parses JSON from an untrusted source, which errors call `where`, e.g. "/x/config.json". Throws `error` if it is not
/// JSON, if it has more than `max_json_values`, is nested deeper than `max_depth`, or if an object names a field twice.
QKGEOM_INLINE json parse_json(std::string_view text, const std::string& where, int max_depth = 64);

/// A value inside a JSON document and its path there, which errors name: `config.json: rope.factor must be a number,
/// not "x"`. Owns nothing: it is valid as long as the document. A field that is null counts as absent, except for `[]`.
class json_value {
 public:
  /// `where` names the document, `path` the value's place inside it; "" is the document itself.
  json_value(const json& node, std::string where, std::string path = {})
      : node_(&node), document_(std::move(where)), path_(std::move(path)) {}

  const json& raw() const { return *node_; }
  bool is_object() const { return node_->is_object(); }
  /// Document and path, the beginning of an error: "config.json: rope".
  std::string where() const { return path_.empty() ? document_ : document_ + ": " + path_; }

  /// A field of this object. Throws `error` if it is missing.
  json_value operator[](const char* field) const {
    expect(node_->is_object(), "an object");
    const auto it = node_->find(field);
    require(it != node_->end(), document_, ": the field ", inner(field), " is missing");
    return {*it, document_, inner(field)};
  }
  /// A field of this object; null if it is absent.
  const json* find(const char* field) const {
    expect(node_->is_object(), "an object");
    const auto it = node_->find(field);
    return it == node_->end() || it->is_null() ? nullptr : &*it;
  }
  /// Whether this is an object with the field.
  bool has(const char* field) const { return node_->is_object() && find(field); }
  /// The entries of this list.
  std::vector<json_value> entries() const {
    expect(node_->is_array(), "a list");
    std::vector<json_value> list;
    list.reserve(node_->size());
    for (std::size_t i = 0; i < node_->size(); ++i)
      list.push_back({(*node_)[i], document_, path_ + '[' + std::to_string(i) + ']'});
    return list;
  }

  /// The value as the type that the function names; throws `error` if it has another one.
  index_t integer(index_t lowest = std::numeric_limits<index_t>::min(),
                  index_t highest = std::numeric_limits<index_t>::max()) const {
    const bool fits = node_->is_number_integer() &&
                      !(node_->is_number_unsigned() && node_->get<std::uint64_t>() > std::uint64_t{INT64_MAX}) &&
                      node_->get<index_t>() >= lowest && node_->get<index_t>() <= highest;
    if (fits) return node_->get<index_t>();
    if (highest == std::numeric_limits<index_t>::max())
      wrong("an integer" + (lowest == std::numeric_limits<index_t>::min() ? "" : " >= " + std::to_string(lowest)));
    wrong("an integer from " + std::to_string(lowest) + " to " + std::to_string(highest));
  }
  std::uint64_t unsigned_integer() const {
    expect(node_->is_number_unsigned(), "an integer >= 0");
    return node_->get<std::uint64_t>();
  }
  double number() const {
    expect(node_->is_number() && std::isfinite(node_->get<double>()), "a number");
    return node_->get<double>();
  }
  double positive() const {
    expect(number() > 0, "a positive number");
    return number();
  }
  bool boolean() const {
    expect(node_->is_boolean(), "true or false");
    return node_->get<bool>();
  }
  const std::string& string() const {
    expect(node_->is_string(), "a string");
    return node_->get_ref<const std::string&>();
  }
  /// A string of at most `max_name_bytes`.
  const std::string& name() const {
    if (string().size() > max_name_bytes) wrong("a string of at most " + std::to_string(max_name_bytes) + " bytes");
    return string();
  }
  json_value object() const {
    expect(is_object(), "an object");
    return *this;
  }
  std::vector<index_t> integers(index_t lowest, index_t highest) const {
    std::vector<index_t> list;
    for (const auto& entry : entries()) list.push_back(entry.integer(lowest, highest));
    return list;
  }
  std::vector<double> numbers() const {
    std::vector<double> list;
    for (const auto& entry : entries()) list.push_back(entry.number());
    return list;
  }

  /// The same for a field of this object; none if it is absent.
  std::optional<index_t> integer(const char* field, index_t lowest, index_t highest) const {
    return find(field) ? std::optional((*this)[field].integer(lowest, highest)) : std::nullopt;
  }
  std::optional<double> number(const char* field) const {
    return find(field) ? std::optional((*this)[field].number()) : std::nullopt;
  }
  std::optional<double> positive(const char* field) const {
    return find(field) ? std::optional((*this)[field].positive()) : std::nullopt;
  }
  std::optional<bool> boolean(const char* field) const {
    return find(field) ? std::optional((*this)[field].boolean()) : std::nullopt;
  }
  std::optional<std::string> string(const char* field) const {
    return find(field) ? std::optional((*this)[field].string()) : std::nullopt;
  }
  std::optional<json_value> object(const char* field) const {
    return find(field) ? std::optional((*this)[field].object()) : std::nullopt;
  }

  /// Throws: this value must be `expected`, not what it is.
  [[noreturn]] void wrong(const std::string& expected) const {
    fail(document_, ": ", path_.empty() ? "the document" : path_, " must be ", expected, ", not ", shown());
  }
  void expect(bool condition, const char* expected) const {
    if (!condition) wrong(expected);
  }

 private:
  std::string inner(const char* field) const { return path_.empty() ? field : path_ + '.' + field; }
  /// The value as it stands in the file, cut short.
  std::string shown() const {
    if (node_->is_array()) return "a list";
    if (node_->is_object()) return "an object";
    std::string text = node_->dump(-1, ' ', true, json::error_handler_t::replace);
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    return text;
  }

  const json* node_;
  std::string document_, path_;
};

/// Reads and parses a JSON file of at most `max_bytes`.
inline json read_json(const std::filesystem::path& path, std::size_t max_bytes = std::size_t{64} << 20) {
  return parse_json(read_text(path, max_bytes), path.string());
}

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/io/detail/json_bodies.hpp"
#endif
