// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "examples/common/table.hpp"

namespace qkgeom::examples {

/// `text` as HTML shows it, between tags or inside a quoted attribute. What is no UTF-8 and what no page may hold
/// becomes U+FFFD.
std::string html_text(std::string_view text);

/// The same with the thin groups of large numbers kept on one line.
std::string html_words(std::string_view text);

/// gnuplot's SVG as an element of a page with others: ids and references get `prefix`, so that no two figures share
/// one; prolog, namespaces and titles are left out. `attributes` are added to the element. Throws `error` at markup
/// that gnuplot does not write.
std::string inline_svg(const std::string& svg, const std::string& prefix, const std::string& attributes);

/// A terminal's table for a page, in a box that scrolls where it is too wide. `label` names it to who cannot see it.
std::string html_table(const table& t, const std::string& label);

/// Keeps what is printed as the parts of a page.
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
  /// HTML as it is.
  void add(const std::string& html) { last().body += html; }

  const std::vector<section>& sections() const { return sections_; }

 private:
  section& last();
  std::vector<section> sections_;
};

}  // namespace qkgeom::examples
