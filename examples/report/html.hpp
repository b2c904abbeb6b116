// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "examples/common/table.hpp"

namespace qkgeom::examples {

/// Escapes `text` for use between tags or inside a quoted attribute. Bytes that are not UTF-8 and characters that HTML
/// forbids become U+FFFD.
std::string html_text(std::string_view text);

/// `html_text` that keeps numbers like 1 234 567 on one line.
std::string html_words(std::string_view text);

/// An SVG of gnuplot or matplotlib as an element of a page: ids and references get `prefix`, so that figures share no
/// id; prolog, namespaces, titles and style sheets are dropped; the element gets `attributes`. Throws `error` at other
/// markup than a drawing's.
std::string inline_svg(const std::string& svg, const std::string& prefix, const std::string& attributes);

/// A table as HTML, in a box that scrolls if the table is too wide. `label` names it to screen readers.
std::string html_table(const table& t, const std::string& label);

/// Collects printed text and tables as sections of a page.
class page_printer : public printer {
 public:
  struct section {
    std::string heading;  ///< plain text
    std::string body;     ///< HTML
  };

  page_printer() : printer(nullptr) {}
  void heading(const std::string& text) override { sections_.push_back({text, {}}); }
  void line(const std::string& text = {}) override;
  void print(const table& t) override;
  /// Appends HTML as it is.
  void add(const std::string& html) { last().body += html; }

  const std::vector<section>& sections() const { return sections_; }

 private:
  section& last();
  std::vector<section> sections_;
};

}  // namespace qkgeom::examples
