// SPDX-License-Identifier: MIT
#include "examples/report/html.hpp"

#include <algorithm>
#include <array>

#include "qkgeom/core/error.hpp"

namespace qkgeom::examples {
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";

/// Bytes of the well-formed UTF-8 character at the start of `text`; 0: there is none.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  const std::size_t n = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  for (std::size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xc0u) != 0x80) return 0;
  // Overlong forms, surrogates, numbers above U+10FFFF.
  const unsigned second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
      (first == 0xf4 && second > 0x8f))
    return 0;
  return n;
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == ':';
}

/// The elements that gnuplot's SVG terminal writes: shapes and text, no scripts.
constexpr std::array<std::string_view, 18> known_elements{
    "svg",     "g",    "defs",  "path",   "use",      "rect",    "circle",  "polygon",     "polyline",
    "ellipse", "text", "tspan", "filter", "clipPath", "pattern", "feFlood", "feComposite", "line"};

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
      if (!skipped_) words(next_, open);
      next_ = open;
      if (next_ < svg_.size()) tag();
    }
    while (!out_.empty() && is_space(out_.back())) out_.pop_back();
    return std::move(out_);
  }

 private:
  [[noreturn]] static void unknown(std::string_view what) {
    fail("a figure for the page holds ", what, ", which is no part of a gnuplot drawing");
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

  void tag() {
    if (svg_.compare(next_, 4, "<!--") == 0) {
      const std::size_t end = svg_.find("-->", next_);
      if (end == std::string::npos) unknown("an open comment");
      next_ = end + 3;
      return;
    }
    ++next_;
    const bool closing = next_ < svg_.size() && svg_[next_] == '/';
    next_ += closing;
    const std::string element = name();
    const bool dropped = element == "title" || element == "desc";
    if (!dropped && std::find(known_elements.begin(), known_elements.end(), element) == known_elements.end())
      unknown("<" + element + ">");
    if (dropped) skipped_ = !closing;
    if (!dropped) out_ += (closing ? "</" : "<") + element;
    if (element == "svg" && !closing) out_ += attributes_;
    for (space(); next_ < svg_.size() && svg_[next_] != '>' && svg_[next_] != '/'; space()) attribute(!dropped);
    const bool alone = next_ < svg_.size() && svg_[next_] == '/';
    next_ += alone;
    if (next_ >= svg_.size() || svg_[next_] != '>') unknown("an open tag");
    ++next_;
    if (!dropped) out_ += alone ? "/>" : ">";
    if (dropped && alone) skipped_ = false;
  }

  void attribute(bool kept) {
    std::string key = name();
    space();
    if (key.empty() || next_ >= svg_.size() || svg_[next_] != '=') unknown("an attribute without value");
    ++next_;
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
  bool skipped_ = false;  ///< inside a title
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
  while (!text.empty()) {
    const std::size_t n = character(text);
    const char c = text[0];
    if (n == 0 || (n == 1 && ((static_cast<unsigned char>(c) < 0x20 && !is_space(c)) || c == 0x7f)) || c == '\r')
      s += replacement;
    else if (n == 1 && c == '<')
      s += "&lt;";
    else if (n == 1 && c == '>')
      s += "&gt;";
    else if (n == 1 && c == '&')
      s += "&amp;";
    else if (n == 1 && c == '"')
      s += "&quot;";
    else if (n == 1 && c == '\'')
      s += "&#39;";
    else
      s += text.substr(0, n);
    text.remove_prefix(std::max<std::size_t>(1, n));
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
