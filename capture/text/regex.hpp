// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

namespace qkgeom {

/// Takes the bytes [begin, end) of a match. Returns false when it wants no more.
using match_sink = std::function<bool(std::size_t begin, std::size_t end)>;

/// A regular expression of tokenizer.json (Oniguruma's Ruby syntax, Unicode 16), matched by ICU over well-formed UTF-8.
/// One object, with its copies, is used by one thread at a time.
class regex {
 public:
  /// Throws `error`, quoting the pattern, if it does not compile or has what ICU reads differently (`\w`, `\b`, ...).
  explicit regex(std::string_view pattern);

  /// Hands the matches in `text` to `match`, from left to right. Skips an empty match right after a match. Returns
  /// false as soon as `match` does. Throws `error` if the search takes more steps than docs/formats.md says.
  bool for_each_match(std::string_view text, const match_sink& match) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace qkgeom
