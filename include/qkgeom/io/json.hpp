// SPDX-License-Identifier: MIT
#pragma once

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

/// Most values of a JSON document, fields and entries at any depth. A value takes up to 100 bytes of memory beside its
/// text; the largest tokenizers have 2 million.
inline constexpr std::size_t max_json_values = 4'000'000;

/// Parses JSON from an untrusted source; `where` names it in errors, e.g. "/x/config.json". Throws `error` if it is not
/// JSON, has more than `max_json_values`, is nested deeper than `max_depth`, or if an object names a field twice.
json parse_json(std::string_view text, const std::string& where, int max_depth = 64);

/// A value inside a JSON document and its path there, for errors: `config.json: rope.factor must be a number, not "x"`.
/// Owns nothing: it is valid as long as the document. A field that is null counts as absent, except for `[]`.
class json_value {
 public:
  /// Refers to a value; `where` names the document, `path` the value inside it, empty for the document itself.
  json_value(const json& node, std::string where, std::string path = {})
      : node_(&node), document_(std::move(where)), path_(std::move(path)) {}

  const json& raw() const { return *node_; }
  bool is_object() const { return node_->is_object(); }
  /// Returns document and path, the beginning of an error: "config.json: rope".
  std::string where() const { return path_.empty() ? document_ : document_ + ": " + path_; }

  /// Returns a field of this object. Throws `error` if it is missing.
  json_value operator[](const char* field) const;
  /// Returns a field of this object; null if it is absent.
  const json* find(const char* field) const;
  /// Returns whether this is an object with the field.
  bool has(const char* field) const { return node_->is_object() && find(field); }
  std::vector<json_value> entries() const;

  /// Returns the value as the type in the function's name; throws `error` if it has another one.
  index_t integer(index_t lowest = std::numeric_limits<index_t>::min(),
                  index_t highest = std::numeric_limits<index_t>::max()) const;
  std::uint64_t unsigned_integer() const;
  double number() const;
  double positive() const;
  bool boolean() const;
  const std::string& string() const;
  /// Returns a string of at most `max_name_bytes`.
  const std::string& name() const;
  json_value object() const;
  std::vector<index_t> integers(index_t lowest, index_t highest) const;
  std::vector<double> numbers() const;

  /// Returns a field of this object likewise; no value if it is absent.
  std::optional<index_t> integer(const char* field, index_t lowest, index_t highest) const;
  std::optional<double> number(const char* field) const;
  std::optional<double> positive(const char* field) const;
  std::optional<bool> boolean(const char* field) const;
  std::optional<std::string> string(const char* field) const;
  std::optional<json_value> object(const char* field) const;

  /// Throws `error`: this value must be `expected`.
  [[noreturn]] void wrong(const std::string& expected) const;
  void expect(bool condition, const char* expected) const;

 private:
  std::string inner(const char* field) const;
  /// Returns the value as it stands in the file, cut short.
  std::string shown() const;

  const json* node_;
  std::string document_, path_;
};

/// Reads and parses a JSON file of at most `max_bytes`.
json read_json(const std::filesystem::path& path, std::size_t max_bytes = std::size_t{64} << 20);

}  // namespace qkgeom
