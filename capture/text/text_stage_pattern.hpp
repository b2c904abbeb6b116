// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "capture/text/regex.hpp"
#include "capture/text/utf8.hpp"
#include "qkgeom/io/json.hpp"

namespace qkgeom {

/// The pattern of a Split or Replace: a fixed string, a regular expression, or any one character of a kind.
class text_pattern {
 public:
  using character_test = bool (*)(char32_t);
  explicit text_pattern(std::string literal) : literal_(std::move(literal)) {}
  explicit text_pattern(const regex& expression) : regex_(std::make_shared<regex>(expression)) {}
  explicit text_pattern(character_test test) : test_(test) {}

  /// From an object with a field "pattern": {"String": ..} or {"Regex": ..}.
  static text_pattern read(const json_value& fields) {
    const auto pattern = fields["pattern"].object();
    if (const auto expression = pattern.string("Regex")) return text_pattern(regex(*expression));
    const std::string& literal = pattern["String"].string();
    // An empty string matches before every character.
    return literal.empty() ? text_pattern(regex("")) : text_pattern(literal);
  }

  /// Calls `part(begin, end, is_match)` for the matches and the gaps between them, in order, until a call returns
  /// false; then returns false.
  template <class F>
  bool for_each_part(std::string_view text, F&& part) const {
    std::size_t done = 0;
    const auto match = [&](std::size_t begin, std::size_t end) {
      if (begin > done && !part(done, begin, false)) return false;
      done = end;
      return static_cast<bool>(part(begin, end, true));
    };
    if (regex_) {
      regex::cursor cursor(*regex_, text);
      for (regex::span m; !text.empty() && cursor.next(&m);)
        if (!match(m.begin, m.end)) return false;
    } else if (test_) {
      for (std::size_t i = 0, n = 0; i < text.size(); i += n) {
        n = utf8_size_at(text, i);
        if (test_(utf8_at(text, i)) && !match(i, i + n)) return false;
      }
    } else if (!literal_.empty()) {
      for (std::size_t i = text.find(literal_); i != text.npos; i = text.find(literal_, done))
        if (!match(i, i + literal_.size())) return false;
    }
    return done == text.size() || part(done, text.size(), false);
  }

 private:
  std::string literal_;
  std::shared_ptr<const regex> regex_;
  character_test test_ = nullptr;
};

}  // namespace qkgeom
