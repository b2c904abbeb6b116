// SPDX-License-Identifier: MIT
#include "examples/common/figures/characters.hpp"

#include <cstddef>

namespace qkgeom::examples {

char32_t code_point(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  char32_t code = character.size() == 1 ? lead : lead & (0x7fu >> character.size());
  for (const char c : character.substr(1)) code = (code << 6) | (static_cast<unsigned char>(c) & 0x3fu);
  return code;
}

std::vector<std::string_view> characters(std::string_view text) {
  constexpr char32_t smallest[] = {0, 0, 0x80, 0x800,
                                   0x10000};  // by size; smaller numbers in so many bytes are overlong forms
  std::vector<std::string_view> all;
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text[0]);
    const std::size_t size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 : 1;
    std::string_view one = text.substr(0, size);
    bool whole = one.size() == size;
    for (const char c : one.substr(1)) whole = whole && (c & 0xc0) == 0x80;
    if (whole && size > 1) {
      const char32_t code = code_point(one);
      whole = code >= smallest[size] && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
    }
    if (!whole) one = text.substr(0, 1);
    all.push_back(one);
    text.remove_prefix(one.size());
  }
  return all;
}

}  // namespace qkgeom::examples
