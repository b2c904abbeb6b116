// SPDX-License-Identifier: MIT
#include "capture/text/unicode.hpp"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "capture/text/generated/unicode_additions.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

/// Parses ICU's notation of a set of characters.
icu::UnicodeSet set_of(const std::string& pattern) {
  UErrorCode status = U_ZERO_ERROR;
  icu::UnicodeSet set(icu::UnicodeString::fromUTF8(pattern), status);
  require(U_SUCCESS(status), "ICU cannot read the set ", pattern, ": ", u_errorName(status));
  return set;
}

/// Freezes a set, which makes look-ups fast.
icu::UnicodeSet frozen(icu::UnicodeSet set) {
  set.freeze();
  return set;
}

/// Returns the characters that ICU is asked about; unicode_additions.hpp lists properties of younger ones.
const icu::UnicodeSet& old_characters() {
  static const icu::UnicodeSet set = frozen(set_of("[:age=15.0:]"));
  return set;
}

using character_classes = std::map<std::string, icu::UnicodeSet, std::less<>>;

character_classes make_classes() {
  const auto in_icu = [](const std::string& property) {
    return set_of("[:" + property + ":]").retainAll(old_characters());
  };
  character_classes classes{{"White_Space", in_icu("White_Space")}};
  icu::UnicodeSet changed;
  for (const auto& [name, members] : detail::category_additions) changed.addAll(set_of(members));
  for (const auto& [name, members] : detail::category_additions) {
    const auto category = in_icu(name).removeAll(changed).addAll(set_of(members));
    classes[name] = category;
    if (name[0] != 'C') classes[std::string(name, 1)].addAll(category);  // C would include unassigned characters
  }
  for (const auto& [name, members] : detail::script_additions) classes[name] = in_icu(name).addAll(set_of(members));
  for (auto& [name, members] : classes) members.freeze();
  return classes;
}

/// Unites `set` with classes.
icu::UnicodeSet united(std::initializer_list<const char*> classes, icu::UnicodeSet set) {
  for (const char* name : classes) set.addAll(*character_class(name));
  return frozen(std::move(set));
}

/// Makes ICU's normal form for the characters of Unicode 9. It leaves others alone, and they combine with nothing.
icu::FilteredNormalizer2 filtered(const icu::Normalizer2* (*form)(UErrorCode&)) {
  static const icu::UnicodeSet known = frozen(set_of("[:age=9.0:]"));
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* const all = form(status);
  require(U_SUCCESS(status), "ICU has no normal form: ", u_errorName(status));
  return {*all, known};
}
const icu::FilteredNormalizer2& form_d() {
  static const icu::FilteredNormalizer2 form = filtered(icu::Normalizer2::getNFDInstance);
  return form;
}

/// Sorts long runs of combining marks by class; ICU takes quadratic time for them.
std::string with_sorted_marks(std::string_view text) {
  constexpr std::size_t long_run = 64;
  std::string out;
  std::size_t copied = 0;
  std::vector<std::pair<std::uint8_t, char32_t>> marks;
  for (std::size_t i = 0, next = 0; i < text.size();) {
    marks.clear();
    const std::size_t begin = i;
    for (; i < text.size(); i = next) {
      const auto c = static_cast<UChar32>(next_character(text, &(next = i)));
      if (c < 0x300 || form_d().hasBoundaryBefore(c)) break;
      icu::UnicodeString parts;
      if (!form_d().getDecomposition(c, parts)) parts = c;
      for (std::int32_t k = 0; k < parts.length(); k = parts.moveIndex32(k, 1))
        marks.emplace_back(form_d().getCombiningClass(parts.char32At(k)), parts.char32At(k));
    }
    if (marks.empty()) i = next;
    if (marks.size() < long_run) continue;
    std::stable_sort(marks.begin(), marks.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    out.append(text, copied, begin - copied);
    for (const auto& m : marks) append_utf8(out, m.second);
    copied = i;
  }
  return out.append(text, copied);
}

std::string normalized(std::string_view text, const icu::Normalizer2& form) {
  const std::string sorted = with_sorted_marks(text);
  require(sorted.size() < std::numeric_limits<std::int32_t>::max(), "a text of ", text.size(),
          " bytes is too long to be normalized");
  std::string out;
  icu::StringByteSink<std::string> sink(&out, static_cast<std::int32_t>(sorted.size()));
  UErrorCode status = U_ZERO_ERROR;
  form.normalizeUTF8(0, sorted, sink, nullptr, status);
  require(U_SUCCESS(status), "ICU cannot normalize a text: ", u_errorName(status));
  return out;
}

char32_t lower(char32_t c) {
  const auto known = static_cast<UChar32>(c), mapped = u_tolower(known);
  if (old_characters().contains(known)) return old_characters().contains(mapped) ? static_cast<char32_t>(mapped) : c;
  for (const auto& r : detail::lower_additions)
    if (c >= r.first && c <= r.last) return static_cast<char32_t>(static_cast<int>(c) + r.difference);
  return c;
}

}  // namespace

void append_utf8(std::string& out, char32_t c) {
  char bytes[U8_MAX_LENGTH];
  std::size_t n = 0;
  U8_APPEND_UNSAFE(bytes, n, c);
  out.append(bytes, n);
}

std::string replace_ill_formed(std::string_view text, std::size_t* replaced) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0, skip = 0; i < text.size();) {
    const std::size_t n = well_formed_size(text, i, &skip);
    out += n > 0 ? text.substr(i, n) : "\ufffd";
    if (n == 0 && replaced) ++*replaced;
    i += n > 0 ? n : skip;
  }
  return out;
}

const icu::UnicodeSet* character_class(std::string_view name) {
  static const character_classes classes = make_classes();
  const auto found = classes.find(name);
  return found == classes.end() ? nullptr : &found->second;
}

bool is_space(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)); }

std::size_t space_before(std::string_view text, std::size_t low, std::size_t end) {
  for (std::size_t i = end; i > low; end = i)
    if (!is_space(previous_character(text, &i))) break;
  return end;
}
std::size_t space_after(std::string_view text, std::size_t i) {
  for (std::size_t next = i; next < text.size(); i = next)
    if (!is_space(next_character(text, &next))) break;
  return i;
}

bool is_numeral(char32_t c) {
  static const icu::UnicodeSet set = united({"N"}, set_of(detail::more_numerals));
  return set.contains(static_cast<UChar32>(c));
}
bool is_word_character(char32_t c) {
  static const icu::UnicodeSet set =
      united({"L", "M", "Nd", "Nl", "Pc"}, set_of("[[:Alphabetic:][:Join_Control:]]").retainAll(old_characters()));
  return set.contains(static_cast<UChar32>(c));
}

std::string normal_form_c(std::string_view text) {
  static const icu::FilteredNormalizer2 form = filtered(icu::Normalizer2::getNFCInstance);
  return normalized(text, form);
}
std::string normal_form_d(std::string_view text) { return normalized(text, form_d()); }

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const char32_t c = next_character(text, &i);
    if (c == 0x130)  // the only character with a lower case of two
      out += "i\u0307";
    else
      append_utf8(out, lower(c));
  }
  return out;
}

}  // namespace qkgeom
