// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>

namespace qkgeom {

/// Unicode normal forms C and D of well-formed UTF-8 (Unicode Standard Annex 15), with the tables of the `tokenizers`
/// library, in O(n log n) at most.
std::string normal_form_c(std::string_view text);
std::string normal_form_d(std::string_view text);

/// `text` in lower case; each character is mapped regardless of its neighbours.
std::string lower_case(std::string_view text);

/// Whether the Digits pre-tokenizer takes `c` for a numeral (categories Nd, Nl and No).
bool is_numeral(char32_t c);

/// Whether a `single_word` added token takes `c` for part of a word.
bool is_word_character(char32_t c);

}  // namespace qkgeom
