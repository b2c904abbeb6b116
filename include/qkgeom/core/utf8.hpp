// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Returns the length of the UTF-8 character that starts with `lead`, in bytes; 1 if no character starts with it.
inline std::size_t utf8_size(unsigned char lead) {
  if (lead < 0xc2) return 1;
  return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
}

/// Returns the bytes of the well-formed character at byte `i` of `text`; 0 if it is ill-formed: `*skip` is then the
/// length of the maximal ill-formed part (Unicode 15, section 3.9, "U+FFFD substitution of maximal subparts").
inline std::size_t well_formed_size(std::string_view text, std::size_t i, std::size_t* skip) {
  const auto byte = [&](std::size_t j) { return static_cast<unsigned char>(text[j]); };
  const unsigned char lead = byte(i);
  *skip = 1;
  if (lead < 0x80) return 1;
  const std::size_t n = utf8_size(lead);
  if (n == 1) return 0;
  // The range of the second byte excludes overlong forms, surrogates and code points beyond U+10FFFF.
  const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (std::size_t j = 1; j < n; ++j) {
    const bool good =
        i + j < text.size() && byte(i + j) >= (j == 1 ? low : 0x80) && byte(i + j) <= (j == 1 ? high : 0xbf);
    if (!good) {
      *skip = j;
      return 0;
    }
  }
  return n;
}

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

/// Returns text from an untrusted file as an error may show it: at most `longest` bytes, cut between characters, with
/// '?' for each control character (C0, DEL, C1) and each ill-formed part.
inline std::string printable(std::string_view text, std::size_t longest = 60) {
  return detail::without_controls(text, longest, false);
}

/// Returns text as a terminal may get it: lines, with '?' for each other control character, each character that turns
/// the direction of text, and each ill-formed part.
inline std::string terminal_text(std::string_view text) { return detail::without_controls(text, text.size(), true); }

}  // namespace qkgeom
