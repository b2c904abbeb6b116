// SPDX-License-Identifier: MIT
#include "capture/regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <limits>

#include "capture/unicode_additions.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

constexpr std::string_view space_ranges = R"(\x09-\x0d\x{85}\p{Z})";
constexpr std::string_view non_space_ranges =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

std::string_view addition(std::string_view name) {
  for (const auto& a : detail::unicode_additions)
    if (a.name == name) return a.ranges;
  return {};
}

/// Copies `\p{Name}` (at `i`, within `pattern`) with what PCRE2's tables lack; returns the index after it.
std::size_t copy_property(std::string_view pattern, std::size_t i, bool in_class, std::string* out) {
  const std::size_t open = i + 2, close = pattern.find('}', i);
  require(open < pattern.size() && pattern[open] == '{' && close != std::string_view::npos, "the regular expression '",
          pattern, "' has a \\", pattern[i + 1], " without {class}");
  std::string_view name = pattern.substr(open + 1, close - open - 1);
  bool negative = pattern[i + 1] == 'P';
  if (!name.empty() && name[0] == '^') {
    negative = !negative;
    name.remove_prefix(1);
  }
  const std::string members = "\\p{" + std::string(name) + "}" + std::string(addition(name));
  require(!(negative && in_class), "the regular expression '", pattern, "' has a negated property within a class");
  *out += in_class ? members : (negative ? "[^" : "[") + members + "]";
  return close + 1;
}

}  // namespace

std::string pcre2_pattern(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size();) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      out += c;
      ++i;
      continue;
    }
    const char escape = pattern[i + 1];
    if (escape == 'p' || escape == 'P') {
      i = copy_property(pattern, i, in_class, &out);
      continue;
    }
    require(escape != 'h' && escape != 'H', "the regular expression '", pattern, "' uses \\", escape,
            ", which is not supported");
    const bool space = escape == 's' || escape == 'S';
    const std::string_view ranges = escape == 's' ? space_ranges : non_space_ranges;
    if (space)
      out += in_class ? std::string(ranges) : "[" + std::string(ranges) + "]";
    else
      out.append(pattern, i, 2);
    i += 2;
  }
  return out;
}

struct regex::state {
  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
  std::string pattern;
  bool jit = false;

  state() = default;
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
};

regex::regex(std::string_view pattern) : state_(std::make_shared<state>()) {
  state& s = *state_;
  s.pattern = std::string(pattern);
  const std::string translated = pcre2_pattern(pattern);
  int code = 0;
  PCRE2_SIZE offset = 0;
  s.code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), PCRE2_UTF | PCRE2_UCP,
                         &code, &offset, nullptr);
  if (!s.code) {
    unsigned char message[256];
    pcre2_get_error_message(code, message, sizeof message);
    fail("the regular expression '", pattern, "' does not compile: ", reinterpret_cast<const char*>(message));
  }
  s.jit = pcre2_jit_compile(s.code, PCRE2_JIT_COMPLETE) == 0;
  s.match = pcre2_match_data_create_from_pattern(s.code, nullptr);
  s.context = pcre2_match_context_create(nullptr);
  // A document may be one word of megabytes: the limits guard against bad patterns, not against long texts.
  constexpr auto no_limit = std::numeric_limits<std::uint32_t>::max();
  pcre2_set_match_limit(s.context, no_limit);
  pcre2_set_depth_limit(s.context, no_limit);
  pcre2_set_heap_limit(s.context, std::uint32_t{1} << 21);  // KiB
  s.stack = pcre2_jit_stack_create(32 << 10, 256 << 20, nullptr);
  if (s.stack) pcre2_jit_stack_assign(s.context, nullptr, s.stack);
}

bool regex::find(std::string_view text, std::size_t from, span* match) const {
  const state& s = *state_;
  // The caller hands over well-formed text; checking it again at every match would cost the square of its length.
  const int found = pcre2_match(s.code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                PCRE2_NO_UTF_CHECK, s.match, s.context);
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0) {
    unsigned char message[256];
    pcre2_get_error_message(found, message, sizeof message);
    fail("matching '", s.pattern, "' failed at byte ", from, " of a text of ", text.size(),
         " bytes: ", reinterpret_cast<const char*>(message));
  }
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(s.match);
  *match = {ends[0], ends[1]};
  return true;
}

}  // namespace qkgeom
