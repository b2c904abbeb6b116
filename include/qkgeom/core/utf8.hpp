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

/// Returns text from an untrusted file as an error may show it: at most `longest` bytes, cut between characters, with
/// '?' for each control character (C0, DEL, C1) and each ill-formed part.
QKGEOM_INLINE std::string printable(std::string_view text, std::size_t longest = 60);

/// Returns text as a terminal may get it: lines, with '?' for each other control character, each character that turns
/// the direction of text, and each ill-formed part.
QKGEOM_INLINE std::string terminal_text(std::string_view text);

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/core/detail/utf8.hpp"
#endif
