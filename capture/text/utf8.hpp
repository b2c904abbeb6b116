// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "qkgeom/core/utf8.hpp"

namespace qkgeom {

/// Appends the character `c` to `out` as UTF-8.
inline void append_utf8(std::string& out, char32_t c) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 0x3f)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | (c >> 6));
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | (c >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | (c >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

/// Bytes of the character at byte `i` of `text`, as far as the text reaches.
inline std::size_t utf8_size_at(std::string_view text, std::size_t i) {
  return std::min(utf8_size(static_cast<unsigned char>(text[i])), text.size() - i);
}

/// Start of the character that ends at byte `end` > 0 of well-formed text, not before `low`.
std::size_t character_start(std::string_view text, std::size_t end, std::size_t low = 0);

/// The character at byte `i` of well-formed UTF-8 text.
char32_t utf8_at(std::string_view text, std::size_t i);

/// `text` with each maximal ill-formed part replaced by U+FFFD, as Python's `errors="replace"` does.
std::string replace_ill_formed(std::string_view text);

/// Whether `c` is white space in Unicode: what `\s` means in tokenizer.json.
bool is_space(char32_t c);

/// Start of the white space that ends at byte `end` of well-formed text, not before `low`.
std::size_t space_before(std::string_view text, std::size_t low, std::size_t end);
/// End of the white space that starts at byte `i`.
std::size_t space_after(std::string_view text, std::size_t i);

}  // namespace qkgeom
