// SPDX-License-Identifier: MIT
#pragma once

#include <unicode/uniset.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "qkgeom/core/utf8.hpp"

namespace qkgeom {

/// Returns the character at byte `*i` of well-formed UTF-8 and moves `*i` to the next one.
inline char32_t next_character(std::string_view text, std::size_t* i) {
  const auto lead = static_cast<unsigned char>(text[*i]);
  const std::size_t n = utf8_size(lead), end = std::min(*i + n, text.size());
  char32_t c = n == 1 ? lead : lead & (0x7fu >> n);
  while (++*i < end) c = (c << 6) | (static_cast<unsigned char>(text[*i]) & 0x3fu);
  return c;
}

/// Returns the character before byte `*i` > 0 of well-formed UTF-8 and moves `*i` to its start.
inline char32_t previous_character(std::string_view text, std::size_t* i) {
  while (--*i > 0 && (static_cast<unsigned char>(text[*i]) & 0xc0) == 0x80) {
  }
  std::size_t start = *i;
  return next_character(text, &start);
}

/// Appends the character `c` to `out` as UTF-8.
void append_utf8(std::string& out, char32_t c);

/// Replaces each maximal ill-formed part by U+FFFD, as Python's `errors="replace"` does, and adds their number to
/// `*replaced`.
std::string replace_ill_formed(std::string_view text, std::size_t* replaced = nullptr);

// Characters have the properties that the `tokenizers` library gives them, in every version of ICU: Unicode 16 in
// regular expressions and beside words, 17 in lower case and numerals, 9 in normal forms.

/// Returns the characters of a general category ("L", "Lu"), a script ("Han") or "White_Space"; null for a name that
/// unicode_additions.hpp does not cover.
const icu::UnicodeSet* character_class(std::string_view name);

/// Returns whether `c` is white space: `\s` in tokenizer.json.
bool is_space(char32_t c);
/// Returns the start of the white space that ends at byte `end`, not before `low`.
std::size_t space_before(std::string_view text, std::size_t low, std::size_t end);
/// Returns the end of the white space that starts at byte `i`.
std::size_t space_after(std::string_view text, std::size_t i);

/// Returns whether the Digits pre-tokenizer takes `c` for a numeral.
bool is_numeral(char32_t c);
/// Returns whether a `single_word` added token takes `c` for part of a word.
bool is_word_character(char32_t c);

/// Converts well-formed UTF-8 to Unicode normal form C or D, in O(n log n) at most.
std::string normal_form_c(std::string_view text);
std::string normal_form_d(std::string_view text);

/// Returns `text` in lower case; each character is mapped regardless of its neighbours.
std::string lower_case(std::string_view text);

}  // namespace qkgeom
