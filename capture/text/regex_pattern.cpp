// SPDX-License-Identifier: MIT
// Translates the dialect of tokenizer.json (Oniguruma's Ruby syntax) to PCRE2's. Constructs that the two read
// differently are rewritten or refused.
#include <algorithm>
#include <cstdint>

#include "capture/text/generated/unicode_additions.hpp"
#include "capture/text/regex.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

constexpr std::string_view space_ranges = R"(\x09-\x0d\x{85}\p{Z})";
constexpr std::string_view non_space_ranges =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class translator {
 public:
  explicit translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (position_ < pattern_.size()) {
      const char c = pattern_[position_];
      if (c == '\\')
        escape();
      else if (in_class_)
        class_character(c);
      else if (c == '[')
        open_class();
      else if (c == '{')
        braces();
      else if (starts_with("(?"))
        group();
      else
        copy(1);
    }
    return std::move(out_);
  }

 private:
  bool starts_with(std::string_view text) const { return pattern_.substr(position_, text.size()) == text; }
  char ahead(std::size_t n) const { return position_ + n < pattern_.size() ? pattern_[position_ + n] : '\0'; }
  void copy(std::size_t n) {
    out_.append(pattern_, position_, n);
    position_ += n;
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail("the regular expression '", shown_pattern(pattern_), "' has ", what, " at byte ", position_,
         ", which is not supported");
  }

  void open_class() {
    in_class_ = true;
    copy(1);
    if (ahead(0) == '^') copy(1);
    if (ahead(0) == ']') copy(1);
  }
  void class_character(char c) {
    if (c == '[') refuse("a class within a class");
    if (starts_with("&&")) refuse("an intersection of classes");
    if (c == ']') in_class_ = false;
    copy(1);
  }

  void group() {
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"})
      if (starts_with(known)) return copy(known.size());
    if (position_ == 0 && starts_with("(?i)")) return copy(4);
    refuse("an unknown kind of group");
  }

  void braces() {
    std::size_t n = 1;
    while (is_digit(ahead(n)) || ahead(n) == ',') ++n;
    const std::string_view inside = pattern_.substr(position_ + 1, n - 1);
    const auto commas = std::count(inside.begin(), inside.end(), ',');
    if (ahead(n) != '}' || commas > 1 || inside.empty() || inside == ",") {  // a plain character in both dialects
      out_ += "\\{";
      ++position_;
      return;
    }
    // In Ruby {n,m}+ is a repetition of the repetition, and {n}? an optional one.
    if (ahead(n + 1) == '+' || (ahead(n + 1) == '?' && commas == 0)) refuse("a repetition of {..}");
    if (inside[0] == ',') {
      out_ += "{0";
      ++position_;
      --n;
    }
    copy(n + 1);
  }

  void members(std::string_view ranges, bool negative) {
    require(!(negative && in_class_), "the regular expression '", shown_pattern(pattern_),
            "' has a negated property within a class");
    if (!in_class_) out_ += negative ? "[^" : "[";
    out_ += ranges;
    if (!in_class_) out_ += ']';
  }

  std::string class_members(std::string_view name) const {
    for (const auto& a : detail::unicode_additions)
      if (a.name == name)
        return a.whole ? std::string(a.ranges) : "\\p{" + std::string(name) + "}" + std::string(a.ranges);
    refuse("the property '" + printable(name) + "'");
  }

  void property() {
    const std::size_t close = pattern_.find('}', position_);
    require(ahead(2) == '{' && close != std::string_view::npos, "the regular expression '", shown_pattern(pattern_),
            "' has a \\", ahead(1), " without {class}");
    std::string_view name = pattern_.substr(position_ + 3, close - position_ - 3);
    bool negative = ahead(1) == 'P';
    if (!name.empty() && name[0] == '^') {
      negative = !negative;
      name.remove_prefix(1);
    }
    members(class_members(name), negative);
    position_ = close + 1;
  }

  void hexadecimal() {
    if (ahead(1) == 'u') {
      for (std::size_t i = 2; i < 6; ++i)
        if (!is_hex(ahead(i))) refuse("\\u without four digits");
      out_ += "\\x{" + std::string(pattern_.substr(position_ + 2, 4)) + "}";
      position_ += 6;
      return;
    }
    if (ahead(2) == '{') {
      const std::size_t close = pattern_.find('}', position_);
      const std::string_view digits =
          pattern_.substr(position_ + 3, close == std::string_view::npos ? 0 : close - position_ - 3);
      if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_hex)) refuse("\\x{..} without a number");
      return copy(close + 1 - position_);
    }
    // Two digits are a byte to Oniguruma, a character to PCRE2.
    if (!is_hex(ahead(2)) || !is_hex(ahead(3)) || ahead(2) > '7') refuse("a byte written with \\x");
    copy(4);
  }

  void escape() {
    const char c = ahead(1);
    if (c == '\0') refuse("a backslash at its end");
    if (c == 'p' || c == 'P') return property();
    if (c == 'x' || c == 'u') return hexadecimal();
    if (c == 's' || c == 'd' || c == 'D' || c == 'S' || c == 'v') {
      if (c == 'v')
        out_ += "\\x0b";
      else if (c == 's' || c == 'S')
        members(c == 's' ? space_ranges : non_space_ranges, false);
      else
        members(class_members("Nd"), c == 'D');
      position_ += 2;
      return;
    }
    constexpr std::string_view same = "nrtfaezZA";
    if (is_digit(c) ||
        (is_letter(c) && (same.find(c) == same.npos || (in_class_ && (c == 'z' || c == 'Z' || c == 'A')))))
      refuse(std::string("\\") + c);
    copy(2);
  }

  std::string_view pattern_;
  std::string out_;
  std::size_t position_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string pcre2_pattern(std::string_view pattern) { return translator(pattern).run(); }

}  // namespace qkgeom
