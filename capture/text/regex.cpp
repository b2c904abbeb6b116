// SPDX-License-Identifier: MIT
#include "capture/text/regex.hpp"

#include <unicode/regex.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "capture/text/unicode.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/utf8.hpp"

namespace qkgeom {
namespace {

std::string shown(std::string_view pattern) { return printable(pattern, 300); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Translates a pattern to ICU's dialect: writes out the members of classes, and refuses what ICU reads differently.
class translator {
 public:
  explicit translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (position_ < pattern_.size()) {
      const char c = pattern_[position_];
      if (starts_with("\\z") || starts_with("\\A"))
        copy(2);
      else if (starts_with("\\Z"))
        replace(2, "(?=\\n?\\z)");
      else if (c == '\\')
        escape_outside();
      else if (c == '[')
        brackets();
      else if (c == '{')
        braces();
      else if (c == '(')
        open_group();
      else if (c == ')')
        close_group();
      else if (c == ']' || c == '}')
        replace(1, std::string("\\") + c);
      else
        copy(1);
    }
    return std::move(out_);
  }

 private:
  /// A character, or a class of characters; `negative`: its complement.
  struct escaped {
    std::optional<char32_t> character;
    const icu::UnicodeSet* members = nullptr;
    bool negative = false;
  };

  bool starts_with(std::string_view text) const { return pattern_.substr(position_, text.size()) == text; }
  char ahead(std::size_t n) const { return position_ + n < pattern_.size() ? pattern_[position_ + n] : '\0'; }
  void copy(std::size_t n) { replace(n, pattern_.substr(position_, n)); }
  void replace(std::size_t n, std::string_view text) {
    out_ += text;
    position_ += n;
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail("the regular expression '", shown(pattern_), "' has ", what, " at byte ", position_,
         ", which is not supported");
  }

  void open_group() {
    if (position_ == 0 && starts_with("(?i)")) {
      folds_.back() = true;
      return copy(4);
    }
    if (contractions()) return;
    std::string_view kind = "(";
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"})
      if (starts_with(known)) kind = known;
    if (kind == "(" && ahead(1) == '?') refuse("an unknown kind of group");
    folds_.push_back(kind == "(?i:" || (kind != "(?-i:" && folds_.back()));
    copy(kind.size());
  }
  /// Writes (?i:'s|'t) as (?i:'(?:s|t)), which fails sooner in ICU. Returns false without such a group.
  bool contractions() {
    constexpr std::string_view open = "(?i:'";
    const std::size_t close = pattern_.find(')', position_);
    if (!starts_with(open) || close == pattern_.npos) return false;
    std::string tails;
    for (std::size_t i = position_ + open.size(); i < close; ++i) {
      const char c = pattern_[i];
      if (!is_letter(c) && c != '|') return false;
      if (c == '|' && pattern_[++i] != '\'') return false;
      tails += c;
    }
    replace(close + 1 - position_, std::string(open) + "(?:" + tails + "))");
    return true;
  }
  void close_group() {
    if (folds_.size() > 1) folds_.pop_back();
    copy(1);
  }

  void braces() {
    std::size_t n = 1;
    while (is_digit(ahead(n)) || ahead(n) == ',') ++n;
    const std::string_view inside = pattern_.substr(position_ + 1, n - 1);
    const auto commas = std::count(inside.begin(), inside.end(), ',');
    if (ahead(n) != '}' || commas > 1 || inside.empty() || inside == ",") return replace(1, "\\{");  // plain text
    // In Ruby {n,m}+ is a repetition of the repetition, and {n}? an optional one.
    if (ahead(n + 1) == '+' || (ahead(n + 1) == '?' && commas == 0)) refuse("a repetition of {..}");
    replace(n + 1, (inside[0] == ',' ? "{0" : "{") + std::string(inside) + '}');
  }

  void brackets() {
    icu::UnicodeSet set;
    const bool negative = ahead(1) == '^';
    position_ += negative ? 2 : 1;
    for (bool first = true; first || ahead(0) != ']'; first = false) {
      const auto low = member(&set);
      if (!low) continue;
      auto high = low;
      if (ahead(0) == '-' && ahead(1) != ']') {
        ++position_;
        high = member(&set);
        if (!high) refuse("a range that ends with a class");
      }
      if (*high < *low) refuse("a range that descends");
      set.add(static_cast<UChar32>(*low), static_cast<UChar32>(*high));
    }
    ++position_;
    write(set, negative);
  }

  /// Reads a member of [..]: returns a character, or adds a class to `set` and returns no value.
  std::optional<char32_t> member(icu::UnicodeSet* set) {
    if (position_ >= pattern_.size()) refuse("a [ without ]");
    if (ahead(0) == '[') refuse("a class within a class");
    if (starts_with("&&")) refuse("an intersection of classes");
    if (ahead(0) != '\\') return next_character(pattern_, &position_);
    const escaped e = escape();
    if (e.members) set->addAll(e.negative ? icu::UnicodeSet().addAll(*e.members).complement() : *e.members);
    return e.character;
  }

  void escape_outside() {
    const escaped e = escape();
    if (e.members) {  // only classes in brackets ignore case
      if (folds_.back()) out_ += "(?-i:";
      write(*e.members, e.negative);
      if (folds_.back()) out_ += ')';
      return;
    }
    write(icu::UnicodeSet().add(static_cast<UChar32>(*e.character)), false);
  }

  void write(const icu::UnicodeSet& set, bool negative) {
    icu::UnicodeString members;
    set.toPattern(members, true).toUTF8String(out_ += negative ? "[^" : "[");
    out_ += ']';
  }

  escaped escape() {
    const char c = ahead(1);
    if (c == '\0') refuse("a backslash at its end");
    if (c == 'p' || c == 'P') return property();
    if (c == 'x' || c == 'u') return {number()};
    constexpr std::string_view names = "nrtvfae", controls = "\n\r\t\v\f\a\x1b", classes = "sSdD";
    const auto control = names.find(c);
    const bool is_class = classes.find(c) != classes.npos;
    if (control == names.npos && !is_class && (is_digit(c) || is_letter(c))) refuse(std::string("\\") + c);
    ++position_;
    const char32_t itself = next_character(pattern_, &position_);
    if (is_class) return {{}, character_class(c == 's' || c == 'S' ? "White_Space" : "Nd"), c == 'S' || c == 'D'};
    return {control == names.npos ? itself : static_cast<char32_t>(controls[control])};
  }

  escaped property() {
    const std::size_t close = pattern_.find('}', position_);
    if (ahead(2) != '{' || close == pattern_.npos) refuse(std::string("\\") + ahead(1) + " without {class}");
    std::string_view name = pattern_.substr(position_ + 3, close - position_ - 3);
    const bool inverted = name.starts_with('^');
    if (inverted) name.remove_prefix(1);
    const escaped e{{}, character_class(name), inverted != (ahead(1) == 'P')};
    if (!e.members) refuse("the property '" + printable(name) + "'");
    position_ = close + 1;
    return e;
  }

  char32_t number() {
    const bool braced = starts_with("\\x{");
    const std::size_t length = braced ? pattern_.find('}', position_) - position_ - 3 : ahead(1) == 'u' ? 4 : 2;
    const std::string_view digits = pattern_.substr(std::min(position_ + (braced ? 3 : 2), pattern_.size()), length);
    std::uint32_t c = 0;
    const char* const end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, c, 16);
    if (digits.size() != length || read.ec != std::errc() || read.ptr != end || c > 0x10ffff)
      refuse("\\x or \\u without a number");
    if (!braced && length == 2 && c > 0x7f) refuse("a byte written with \\x");  // Oniguruma takes two digits for a byte
    position_ += length + (braced ? 4 : 2);
    return c;
  }

  std::string_view pattern_;
  std::string out_;
  std::size_t position_ = 0;
  std::vector<bool> folds_{false};  // whether the enclosing groups ignore case
};

}  // namespace

struct regex::state {
  std::string pattern;
  std::unique_ptr<icu::RegexPattern> compiled;
  std::unique_ptr<icu::RegexMatcher> matcher;
};

regex::regex(std::string_view pattern) : state_(std::make_shared<state>()) {
  constexpr std::size_t longest = std::size_t{1} << 14;  // one class of it becomes 10 KB
  require(pattern.size() <= longest, "the regular expression '", shown(pattern), "' has more than ", longest, " bytes");
  UErrorCode status = U_ZERO_ERROR;
  UParseError place;
  const auto translated = icu::UnicodeString::fromUTF8(translator(pattern).run());
  state_->pattern = pattern;
  state_->compiled.reset(icu::RegexPattern::compile(translated, UREGEX_MULTILINE | UREGEX_UNIX_LINES, place, status));
  if (U_SUCCESS(status)) state_->matcher.reset(state_->compiled->matcher(status));
  if (U_SUCCESS(status)) state_->matcher->setStackLimit(0, status);  // a text may be one word of megabytes
  require(U_SUCCESS(status), "the regular expression '", shown(pattern), "' does not compile: ", u_errorName(status));
}

bool regex::for_each_match(std::string_view text, const match_sink& match) const {
  require(text.size() < std::numeric_limits<std::int32_t>::max(), "a text of ", text.size(),
          " bytes is too long for a regular expression");
  // ICU searches UTF-16 five times as fast as UTF-8.
  const auto wide = icu::UnicodeString::fromUTF8(text);
  std::int32_t unit = 0;
  std::size_t byte = 0;
  const auto byte_of = [&](std::int32_t next) {
    for (; unit < next; ++unit)
      byte += U16_IS_SURROGATE(wide[unit]) ? 2 : static_cast<std::size_t>(U8_LENGTH(wide[unit]));
    return byte;
  };
  icu::RegexMatcher& matcher = *state_->matcher;
  UErrorCode status = U_ZERO_ERROR;
  matcher.reset(wide);
  // Guards against bad patterns; a unit of the limit is 10,000 steps.
  matcher.setTimeLimit(static_cast<std::int32_t>(1000 + text.size() / 10), status);
  std::size_t last_end = text.npos;
  while (matcher.find(status)) {
    const std::size_t begin = byte_of(matcher.start(status)), end = byte_of(matcher.end(status));
    if (begin == end && end == last_end) continue;
    last_end = end;
    if (!match(begin, end)) return false;
  }
  require(U_SUCCESS(status), "matching '", shown(state_->pattern), "' failed in a text of ", text.size(),
          " bytes: ", status == U_REGEX_TIME_OUT ? "it takes too many steps" : u_errorName(status));
  return true;
}

}  // namespace qkgeom
