// SPDX-License-Identifier: MIT
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace qkgeom {

/// Reads a whole number in decimal digits, with a minus sign if T has one. Null if the text is anything else, or does
/// not fit into T.
template <class T>
std::optional<T> whole_number(std::string_view text) {
  T n{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

/// Makes the options of a command line (CLI11's) that take whole numbers refuse what `whole_number` does not read:
/// CLI11 takes 010 for 8, and cuts what does not fit. Call it before the parse.
template <class App>
void require_whole_numbers(App& app) {
  for (auto* option : app.get_options()) {
    const std::string type = option->get_type_name();
    const bool natural = type.starts_with("UINT");
    if (!natural && !type.starts_with("INT")) continue;
    option->check(
        [natural](const std::string& text) {
          const bool good =
              natural ? whole_number<std::uint64_t>(text).has_value() : whole_number<std::int64_t>(text).has_value();
          const bool octal = text.size() > 1 && text[text.front() == '-'] == '0';
          return good && !octal ? std::string()
                                : "'" + text + "' is not a whole number " +
                                      (natural ? "from 0 to 2^64 - 1" : "of 64 bits") + " in decimal digits";
        },
        "");
  }
}

}  // namespace qkgeom
