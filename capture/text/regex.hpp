// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

namespace qkgeom {

/// Takes the bytes [begin, end) of a match. Returns false to stop.
using match_sink = std::function<bool(std::size_t begin, std::size_t end)>;

/// A regular expression of tokenizer.json (Oniguruma's Ruby syntax, Unicode 16), matched by ICU over well-formed UTF-8.
/// An object and its copies may be used by one thread at a time.
class regex {
 public:
  /// Compiles a pattern. Throws `error`, quoting it, if it is invalid or ICU reads it differently (`\w`, `\b`, ...).
  explicit regex(std::string_view pattern);

  /// Passes the matches in `text` to `match`, from left to right, without empty matches right after a match. Returns
  /// false as soon as `match` does. Throws `error` if the search takes more steps than docs/formats.md says.
  bool for_each_match(std::string_view text, const match_sink& match) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace qkgeom
