// SPDX-License-Identifier: MIT
#include "capture/job/protocol.hpp"

#include <set>
#include <type_traits>

#include "capture/job/option_list.hpp"
#include "capture/model/head_changes.hpp"
#include "qkgeom/io/file.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {
namespace {

template <class T>
T one_of(const json_value& v) {
  std::string names;
  for (const auto& [name, value] : names_of(T{})) {
    if (v.string() == name) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  fail(v.where(), " must be one of ", names, ", not \"", printable(v.string()), "\"");
}

/// Reads one option from a protocol that has it.
struct field_reader {
  const json_value& protocol;
  std::set<std::string> known{"about", "split"};  // read by people alone

  template <class T>
  void operator()(const char* name, T&& value, const char*, unsigned where = here, index_t least = 0) {
    if (where & in_protocol) read(field_of(name), value, least);
  }
  template <class T>
  void read(const std::string& field, T& value, index_t least = 0) {
    known.insert(field);
    if (!protocol.has(field.c_str())) return;
    const json_value v = protocol[field.c_str()];
    if constexpr (std::is_same_v<T, bool>)
      value = v.boolean();
    else if constexpr (std::is_same_v<T, std::uint64_t>)
      value = v.unsigned_integer();
    else if constexpr (std::is_integral_v<T>)
      value = static_cast<T>(v.integer(least, most_tokens));
    else if constexpr (std::is_enum_v<T>)
      value = one_of<T>(v);
    else if constexpr (std::is_same_v<T, std::string>)
      value = v.string();
    else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>>)
      value = v.positive();
    else if constexpr (std::is_same_v<T, head_choice>) {
      if (v.is_object())
        value.list = parse_head_lists(v.raw(), v.where());
      else
        value.count = v.integer(1, most_tokens);
    } else
      fail(v.where(), " has no form in a protocol");
  }
};

}  // namespace

capture_options parse_protocol(std::string_view text, const std::string& where) {
  const json document = parse_json(text, where);
  const json_value v(document, where);
  v.expect(v.is_object(), "an object");
  capture_options o;
  field_reader reader{v};
  each_option(o, reader);
  reader.read("model", o.protocol.model);
  reader.read("tokenizer", o.protocol.tokenizer);
  reader.read("documents", o.protocol.documents);
  reader.read("n_layers", o.protocol.n_layers, 1);
  reader.read("n_query_heads", o.protocol.n_query_heads, 1);
  reader.read("n_key_heads", o.protocol.n_key_heads, 1);
  o.protocol.name = v["study"].string();
  reader.known.insert("study");
  for (const auto& field : v.raw().items())
    require(reader.known.contains(field.key()), v.where(), ": a protocol has no field \"", printable(field.key()),
            "\"");
  return o;
}

capture_options find_protocol(const std::string& name_or_file) {
  for (const builtin_protocol& p : builtin_protocols())
    if (p.name == name_or_file) return parse_protocol(p.text, "protocol " + name_or_file);
  std::error_code unknown;
  if (std::filesystem::is_regular_file(name_or_file, unknown))
    return parse_protocol(read_text(name_or_file, std::size_t{4} << 20), name_or_file);
  std::string names;
  for (const builtin_protocol& p : builtin_protocols()) names += (names.empty() ? "" : ", ") + std::string(p.name);
  fail("there is no protocol '", printable(name_or_file), "', nor a file of that name; protocols: ", names);
}

}  // namespace qkgeom
