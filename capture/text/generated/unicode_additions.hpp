// SPDX-License-Identifier: MIT
// Made by make_unicode_additions.py from tokenizers 0.23.3 and ICU 72, 78; do not edit.
#pragma once

/// Properties of characters that the `tokenizers` library knows and ICU may not: sets are patterns of icu::UnicodeSet.
namespace qkgeom::detail {

struct named_set {
  const char *name, *members;
};

/// General categories: the characters beyond Unicode 15.0, and those that changed.
inline constexpr named_set category_additions[] = {
    {"Cc", "[]"},
    {"Cf", "[]"},
    {"Ll", "[\\u0295\\u1c8a\\ua7cd\\ua7db\\U00010d70-\\U00010d85]"},
    {"Lm", "[\\U00010d4e\\U00010d6f\\U00016d40-\\U00016d42\\U00016d6b-\\U00016d6c]"},
    {"Lo", "[\\U000105c0-\\U000105f3\\U00010d4a-\\U00010d4d\\U00010d4f\\U00010ec2-\\U00010ec4\\U00011380-\\U00011389"
     "\\U0001138b\\U0001138e\\U00011390-\\U000113b5\\U000113b7\\U000113d1\\U000113d3\\U00011bc0-\\U00011be0"
     "\\U00013460-\\U000143fa\\U00016100-\\U0001611d\\U00016d43-\\U00016d6a\\U00018cff\\U0001e5d0-\\U0001e5ed"
     "\\U0001e5f0\\U0002ebf0-\\U0002ee5d]"},
    {"Lt", "[]"},
    {"Lu", "[\\u1c89\\ua7cb-\\ua7cc\\ua7da\\ua7dc\\U00010d50-\\U00010d65]"},
    {"Mc", "[\\U000113b8-\\U000113ba\\U000113c2\\U000113c5\\U000113c7-\\U000113ca\\U000113cc-\\U000113cd\\U000113cf"
     "\\U0001171e\\U0001612a-\\U0001612c]"},
    {"Me", "[]"},
    {"Mn", "[\\u0897\\U00010d69-\\U00010d6d\\U00010efc\\U000113bb-\\U000113c0\\U000113ce\\U000113d0\\U000113d2"
     "\\U000113e1-\\U000113e2\\U00011f5a\\U0001611e-\\U00016129\\U0001612d-\\U0001612f\\U0001e5ee-\\U0001e5ef]"},
    {"Nd", "[\\U00010d40-\\U00010d49\\U000116d0-\\U000116e3\\U00011bf0-\\U00011bf9\\U00016130-\\U00016139"
     "\\U00016d70-\\U00016d79\\U0001ccf0-\\U0001ccf9\\U0001e5f1-\\U0001e5fa]"},
    {"Nl", "[]"},
    {"No", "[]"},
    {"Pc", "[]"},
    {"Pd", "[\\U00010d6e]"},
    {"Pe", "[]"},
    {"Pf", "[]"},
    {"Pi", "[]"},
    {"Po", "[\\u1b4e-\\u1b4f\\u1b7f\\U000113d4-\\U000113d5\\U000113d7-\\U000113d8\\U00011be1\\U00016d6d-\\U00016d6f"
     "\\U0001e5ff]"},
    {"Ps", "[]"},
    {"Sc", "[]"},
    {"Sk", "[]"},
    {"Sm", "[\\U00010d8e-\\U00010d8f]"},
    {"So", "[\\u2427-\\u2429\\u2ffc-\\u2fff\\u31e4-\\u31e5\\u31ef\\U0001cc00-\\U0001ccef\\U0001cd00-\\U0001ceb3"
     "\\U0001f8b2-\\U0001f8bb\\U0001f8c0-\\U0001f8c1\\U0001fa89\\U0001fa8f\\U0001fabe\\U0001fac6\\U0001fadc"
     "\\U0001fadf\\U0001fae9\\U0001fbcb-\\U0001fbef]"},
    {"Zl", "[]"},
    {"Zp", "[]"},
    {"Zs", "[]"},
};

/// Scripts: the characters beyond Unicode 15.0.
inline constexpr named_set script_additions[] = {
    {"Arabic", "[\\u0897\\U00010ec2-\\U00010ec4\\U00010efc]"},
    {"Cyrillic", "[\\u1c89-\\u1c8a]"},
    {"Devanagari", "[]"},
    {"Greek", "[]"},
    {"Han", "[\\U0002ebf0-\\U0002ee5d]"},
    {"Hangul", "[]"},
    {"Hebrew", "[]"},
    {"Hiragana", "[]"},
    {"Katakana", "[]"},
    {"Latin", "[\\ua7cb-\\ua7cd\\ua7da-\\ua7dc]"},
    {"Thai", "[]"},
};

/// Numerals of the Digits pre-tokenizer that no regular expression counts as one.
inline constexpr const char* more_numerals = "[\\U00011de0-\\U00011de9\\U00016ff4-\\U00016ff6]";

/// Lower case of characters beyond Unicode 15.0: adds `difference` to first .. last.
struct case_range {
  char32_t first, last;
  int difference;
};
inline constexpr case_range lower_additions[] = {
    {0x1c89, 0x1c89, 1},
    {0xa7cb, 0xa7cb, -42343},
    {0xa7cc, 0xa7cc, 1},
    {0xa7ce, 0xa7ce, 1},
    {0xa7d2, 0xa7d2, 1},
    {0xa7d4, 0xa7d4, 1},
    {0xa7da, 0xa7da, 1},
    {0xa7dc, 0xa7dc, -42561},
    {0x10d50, 0x10d65, 32},
    {0x16ea0, 0x16eb8, 27},
};

}  // namespace qkgeom::detail
