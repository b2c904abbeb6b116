// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/core/budget.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom::detail {

/// Splits CSV text into rows, RFC 4180: quoted fields may hold commas, quotes (doubled) and line ends.
class csv_splitter {
 public:
  csv_splitter(std::string_view text, const std::string& where)
      : text_(text),
        where_(where),
        fields_(most_fields, where + ": the table has more than " + std::to_string(most_fields) + " fields") {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") text_.remove_prefix(3);  // the byte order mark of spreadsheets
  }

  bool more() const { return at_ < text_.size(); }
  std::size_t line() const { return line_; }

  std::vector<std::string> next_row() {
    std::vector<std::string> fields(1);
    fields_.spend(1);
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"' && fields.back().empty()) {
        quoted(fields.back());
      } else if (c == ',') {
        fields_.spend(1);
        fields.emplace_back();
      } else if (c == '\n' || (c == '\r' && at_ < text_.size() && text_[at_] == '\n')) {
        at_ += c == '\r';
        ++line_;
        break;
      } else {
        fields.back() += c;
      }
    }
    return fields;
  }

 private:
  static constexpr std::size_t most_fields = 4'000'000;  // a field takes 32 bytes of memory besides its text

  void quoted(std::string& field) {
    const std::size_t start = line_;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"' && (at_ == text_.size() || text_[at_] != '"')) return;
      at_ += c == '"';
      line_ += c == '\n';
      field += c;
    }
    fail(where_, ": the quote opened in line ", start, " is never closed");
  }

  std::string_view text_;
  const std::string& where_;
  budget fields_;
  std::size_t at_ = 0, line_ = 1;
};

}  // namespace qkgeom::detail
