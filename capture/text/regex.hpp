// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "qkgeom/core/utf8.hpp"

namespace qkgeom {

/// Rewrites a regular expression of tokenizer.json (Oniguruma, Unicode 16) for PCRE2: `\s` means Unicode white space,
/// and the classes `\p{..}` get the code points that PCRE2's tables lack. Other constructs that the two dialects read
/// differently (`\w`, `\b`, `\P{..}` within a class, ...) are refused by name.
std::string pcre2_pattern(std::string_view pattern);

/// A pattern as an error shows it.
inline std::string shown_pattern(std::string_view pattern) { return printable(pattern, 300); }

/// A compiled regular expression over well-formed UTF-8. One object is used by one thread at a time.
class regex {
 public:
  /// `pattern` in tokenizer.json's dialect. Throws `error` that quotes the pattern if it does not compile.
  explicit regex(std::string_view pattern);

  struct span {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  /// Iterates over the matches in `text`. An empty match right after a match is skipped.
  class cursor {
   public:
    cursor(const regex& expression, std::string_view text) : expression_(expression), text_(text) {}
    /// Returns false if there are no more.
    bool next(span* match);

   private:
    const regex& expression_;
    std::string_view text_;
    std::size_t from_ = 0;
    std::size_t last_end_ = std::string_view::npos;
  };
  /// The leftmost match that starts at byte `from` or later. Returns false if there is none.
  bool find(std::string_view text, std::size_t from, span* match) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace qkgeom
