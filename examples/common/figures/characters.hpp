// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>
#include <vector>

namespace qkgeom::examples {

/// The UTF-8 characters of a text in order. A byte that belongs to no character is an `ill_formed` one of its own.
std::vector<std::string_view> characters(std::string_view text);

inline bool ill_formed(std::string_view character) {
  return character.size() == 1 && (static_cast<unsigned char>(character[0]) & 0x80) != 0;
}

/// The Unicode number of a character that is not ill-formed.
char32_t code_point(std::string_view character);

}  // namespace qkgeom::examples
