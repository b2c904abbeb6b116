// SPDX-License-Identifier: MIT
#include "capture/text/regex.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "capture/text/utf8.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

std::string message_of(int code) {
  unsigned char message[256];
  pcre2_get_error_message(code, message, sizeof message);
  return reinterpret_cast<const char*>(message);
}

}  // namespace

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
  s.code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                         PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &code, &offset, nullptr);
  if (!s.code) fail("the regular expression '", shown_pattern(pattern), "' does not compile: ", message_of(code));
  s.jit = pcre2_jit_compile(s.code, PCRE2_JIT_COMPLETE) == 0;
  s.match = pcre2_match_data_create_from_pattern(s.code, nullptr);
  s.context = pcre2_match_context_create(nullptr);
  pcre2_set_depth_limit(s.context, std::numeric_limits<std::uint32_t>::max());
  pcre2_set_heap_limit(s.context, std::uint32_t{1} << 21);  // KiB
  s.stack = pcre2_jit_stack_create(32 << 10, 256 << 20, nullptr);
  if (s.stack) pcre2_jit_stack_assign(s.context, nullptr, s.stack);
}

bool regex::find(std::string_view text, std::size_t from, span* match) const {
  const state& s = *state_;
  // A document may be one word of megabytes: the limit guards against bad patterns, not against long texts.
  constexpr std::size_t least_steps = 10'000'000, most_steps = std::numeric_limits<std::uint32_t>::max();
  const std::size_t steps = std::min(least_steps + 100 * std::min(text.size(), most_steps / 100), most_steps);
  pcre2_set_match_limit(s.context, static_cast<std::uint32_t>(steps));
  // The text is well-formed; checking it again at every match would take time quadratic in its length.
  const int found = pcre2_match(s.code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                PCRE2_NO_UTF_CHECK, s.match, s.context);
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0)
    fail("matching '", shown_pattern(s.pattern), "' failed at byte ", from, " of a text of ", text.size(),
         " bytes: ", message_of(found));
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(s.match);
  *match = {ends[0], ends[1]};
  return true;
}

bool regex::cursor::next(span* match) {
  while (from_ <= text_.size() && expression_.find(text_, from_, match)) {
    if (match->begin < match->end || match->end != last_end_) {
      from_ = last_end_ = match->end;
      return true;
    }
    from_ += from_ < text_.size() ? utf8_size_at(text_, from_) : 1;
  }
  return false;
}

}  // namespace qkgeom
