// SPDX-License-Identifier: MIT
#include "examples/report/page.hpp"

#include <algorithm>
#include <array>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/utf8.hpp"

namespace qkgeom::examples {
namespace {

constexpr std::string_view replacement = "\ufffd";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == ':';
}

/// The elements that gnuplot and matplotlib write: shapes and text, no scripts; and what a page leaves out.
constexpr std::array<std::string_view, 18> known_elements{
    "svg",     "g",    "defs",  "path",   "use",      "rect",    "circle",  "polygon",     "polyline",
    "ellipse", "text", "tspan", "filter", "clipPath", "pattern", "feFlood", "feComposite", "line"};
constexpr std::array<std::string_view, 4> dropped_elements{"title", "desc", "metadata", "style"};

bool holds(const auto& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Rewrites one SVG text, tag by tag.
class svg_rewriter {
 public:
  svg_rewriter(const std::string& svg, const std::string& prefix, const std::string& attributes)
      : svg_(svg), prefix_(prefix), attributes_(attributes) {}

  std::string result() {
    next_ = svg_.find("<svg");
    require(next_ != std::string::npos, "a figure for the page is no SVG");
    while (next_ < svg_.size()) {
      const std::size_t open = std::min(svg_.find('<', next_), svg_.size());
      words(next_, open);
      next_ = open;
      if (next_ < svg_.size()) tag();
    }
    while (!out_.empty() && is_space(out_.back())) out_.pop_back();
    return std::move(out_);
  }

 private:
  [[noreturn]] static void unknown(std::string_view what) {
    fail("a figure for the page holds ", what, ", which is no part of a drawing");
  }

  /// gnuplot does not escape >, which XML forbids after ]].
  void words(std::size_t from, std::size_t to) {
    for (; from < to; ++from) out_ += svg_[from] == '>' ? "&gt;" : svg_.substr(from, 1);
  }

  std::string name() {
    const std::size_t from = next_;
    while (next_ < svg_.size() && is_name(svg_[next_])) ++next_;
    return svg_.substr(from, next_ - from);
  }
  void space() {
    while (next_ < svg_.size() && is_space(svg_[next_])) ++next_;
  }

  /// Goes on behind `end`, which ends what begins at `next_`.
  void skip_past(const std::string& end, const std::string& what) {
    const std::size_t at = svg_.find(end, next_);
    if (at == std::string::npos) unknown("an open " + what);
    next_ = at + end.size();
  }
  bool take(char c) {
    const bool there = next_ < svg_.size() && svg_[next_] == c;
    next_ += there;
    return there;
  }

  void tag() {
    if (svg_.compare(next_, 4, "<!--") == 0) return skip_past("-->", "comment");
    ++next_;
    const bool closing = take('/');
    const std::string element = name();
    const bool dropped = holds(dropped_elements, element);
    if (!dropped && !holds(known_elements, element)) unknown("<" + element + ">");
    if (!dropped) out_ += (closing ? "</" : "<") + element;
    if (element == "svg" && !closing) out_ += attributes_;
    for (space(); next_ < svg_.size() && svg_[next_] != '>' && svg_[next_] != '/'; space()) attribute(!dropped);
    const bool alone = take('/');
    if (!take('>')) unknown("an open tag");
    if (!dropped)
      out_ += alone ? "/>" : ">";
    else if (!alone)
      skip_past("</" + element + ">", element);
  }

  void attribute(bool kept) {
    std::string key = name();
    space();
    if (key.empty() || !take('=')) unknown("an attribute without value");
    space();
    const char quote = next_ < svg_.size() ? svg_[next_] : '\0';
    if (quote != '"' && quote != '\'') unknown("an attribute without quotes");
    const std::size_t end = svg_.find(quote, next_ + 1);
    if (end == std::string::npos) unknown("an open attribute");
    std::string value = svg_.substr(next_ + 1, end - next_ - 1);
    next_ = end + 1;
    if (!kept || key.rfind("xmlns", 0) == 0) return;
    if (key.rfind("on", 0) == 0) unknown(key);
    if (key == "xlink:href") key = "href";
    if (key == "id") value = prefix_ + value;
    if (key == "href") {
      if (value.empty() || value[0] != '#') unknown("a reference to " + value);
      value = "#" + prefix_ + value.substr(1);
    }
    for (std::size_t u = value.find("url("); u != std::string::npos; u = value.find("url(", u + 4)) {
      if (value.compare(u, 5, "url(#") != 0) unknown("a reference to " + value);
      value.insert(u + 5, prefix_);
    }
    out_ += " " + key + "=" + quote + value + quote;
  }

  const std::string &svg_, &prefix_, &attributes_;
  std::string out_;
  std::size_t next_ = 0;  ///< of the first byte not read
};

/// Text without the spaces and line ends around it.
std::string trimmed(const std::string& text) {
  const std::size_t from = text.find_first_not_of(" \n"), to = text.find_last_not_of(" \n");
  return from == std::string::npos ? std::string() : text.substr(from, to - from + 1);
}

std::size_t spaces_behind(const std::string& text) { return text.size() - 1 - text.find_last_not_of(' '); }

}  // namespace

std::string html_text(std::string_view text) {
  std::string s;
  for (std::size_t i = 0, n; i < text.size(); i += std::max<std::size_t>(1, n)) {
    std::size_t ill_formed;
    n = well_formed_size(text, i, &ill_formed);
    const char c = text[i];
    const auto special = std::string_view("<>&\"'").find(c);
    constexpr const char* escaped[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"};
    if (n == 0 || (n == 1 && ((static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n') || c == 0x7f)))
      s += replacement;
    else if (special != std::string_view::npos)
      s += escaped[special];
    else
      s += text.substr(i, n);
  }
  return s;
}

std::string html_words(std::string_view text) {
  std::string s = html_text(text), kept;
  const auto digit = [&](std::size_t i) { return i < s.size() && s[i] >= '0' && s[i] <= '9'; };
  for (std::size_t i = 0; i < s.size(); ++i) {
    const bool group =
        s[i] == ' ' && i > 0 && digit(i - 1) && digit(i + 1) && digit(i + 2) && digit(i + 3) && !digit(i + 4);
    kept += group ? "\u00a0" : std::string(1, s[i]);
  }
  return kept;
}

std::string inline_svg(const std::string& svg, const std::string& prefix, const std::string& attributes) {
  return svg_rewriter(svg, prefix, attributes).result();
}

std::string html_table(const table& t, const std::string& label) {
  const auto& columns = t.columns();
  const auto side = [&](std::size_t c) {
    return std::string(columns[c].side == table::align::left ? " class=\"words\"" : "");
  };
  std::string s = "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" + html_text(label) +
                  "\">\n<table>\n<thead>\n<tr>";
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const std::string cell = columns[c].header.empty() ? "td" : "th";
    s += "<" + cell + (cell == "th" ? " scope=\"col\"" : "") + side(c) + ">" + html_text(columns[c].header) + "</" +
         cell + ">";
  }
  s += "</tr>\n</thead>\n<tbody>\n";
  const auto& rows = t.rows();
  // Spaces after a number align it with numbers of more digits; figure spaces do so on the page.
  std::vector<std::size_t> spare(columns.size(), std::string::npos);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c)
      if (!row[c].empty()) spare[c] = std::min(spare[c], spaces_behind(row[c]));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].empty()) {
      s += "</tbody>\n<tbody>\n";
      continue;
    }
    s += "<tr>";
    for (std::size_t c = 0; c < columns.size(); ++c) {
      std::string text = html_words(trimmed(rows[r][c]));
      if (columns[c].side == table::align::right && !text.empty())
        for (std::size_t i = spare[c]; i < spaces_behind(rows[r][c]); ++i) text += "\u2007";
      if (c > 0) {
        s += "<td" + side(c) + ">" + text + "</td>";
        continue;
      }
      // A row whose first cell is empty belongs to the label above.
      if (text.empty() && r > 0 && !rows[r - 1].empty()) continue;
      std::size_t span = 1;
      while (r + span < rows.size() && !rows[r + span].empty() && trimmed(rows[r + span][0]).empty()) ++span;
      s += "<th class=\"words\" scope=\"" +
           (span > 1 ? "rowgroup\" rowspan=\"" + std::to_string(span) : std::string("row")) + "\">" + text + "</th>";
    }
    s += "</tr>\n";
  }
  return s + "</tbody>\n</table>\n</div>\n";
}

page_printer::section& page_printer::last() {
  if (sections_.empty()) sections_.emplace_back();
  return sections_.back();
}

void page_printer::line(const std::string& text) {
  const std::string words = trimmed(text);
  if (!words.empty()) last().body += "<p>" + html_words(words) + "</p>\n";
}

void page_printer::print(const table& t) { last().body += html_table(t, last().heading); }

}  // namespace qkgeom::examples
