// SPDX-License-Identifier: MIT
#pragma once

#include "qkgeom/core/utf8.hpp"

namespace qkgeom {

namespace detail {

/// Returns whether a well-formed character of `n` bytes at byte `i` controls a terminal or the direction of its text.
inline bool controls_output(std::string_view text, std::size_t i, std::size_t n) {
  const auto byte = [&](std::size_t j) { return static_cast<unsigned char>(text[i + j]); };
  if (n == 1) return byte(0) < 0x20 || byte(0) == 0x7f;
  if (n == 2) return (byte(0) == 0xc2 && byte(1) < 0xa0) || (byte(0) == 0xd8 && byte(1) == 0x9c);
  if (n != 3 || byte(0) != 0xe2) return false;
  const unsigned char last = byte(2);  // U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069
  return byte(1) == 0x80 ? last == 0x8e || last == 0x8f || (last >= 0xa8 && last <= 0xae)
                         : byte(1) == 0x81 && last >= 0xa6 && last <= 0xa9;
}

inline std::string without_controls(std::string_view text, std::size_t longest, bool lines) {
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t skip = 0;
    const std::size_t n = well_formed_size(text, i, &skip);
    if (i + (n ? n : skip) > longest) return shown + "...";
    const bool line_end = lines && text[i] == '\n';
    if (n == 0 || (controls_output(text, i, n) && !line_end))
      shown += '?';
    else
      shown.append(text, i, n);
    i += n ? n : skip;
  }
  return shown;
}

}  // namespace detail

QKGEOM_INLINE std::string printable(std::string_view text, std::size_t longest) {
  return detail::without_controls(text, longest, false);
}

QKGEOM_INLINE std::string terminal_text(std::string_view text) {
  return detail::without_controls(text, text.size(), true);
}

}  // namespace qkgeom
