// SPDX-License-Identifier: MIT
#include "examples/common/table.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/utf8.hpp"

namespace qkgeom::examples {
namespace {

std::string formatted(const char* format, int digits, double value) {
  if (!std::isfinite(value)) return "-";
  char text[64];
  std::snprintf(text, sizeof text, format, digits, value);
  std::string s = text;
  if (s[0] == '-' && s.find_first_of("123456789") == std::string::npos) s.erase(0, 1);
  return s;
}

std::string repeated(const char* text, std::size_t times) {
  std::string s;
  while (times-- > 0) s += text;
  return s;
}

}  // namespace

std::string fixed(double value, int digits) { return formatted("%.*f", digits, value); }

std::string signed_fixed(double value, int digits) {
  const std::string s = fixed(value, digits);
  return std::isfinite(value) && s[0] != '-' && s.find_first_of("123456789") != std::string::npos ? "+" + s : s;
}

std::string significant(double value, int digits) {
  if (!std::isfinite(value) || value == 0) return formatted("%.*f", 0, value);
  const int order = static_cast<int>(std::floor(std::log10(std::abs(value))));
  if (order < -5 || order > 8) return formatted("%.*e", digits - 1, value);
  return fixed(value, std::max(0, digits - 1 - order));
}

std::string signed_significant(double value, int digits) {
  return std::string(std::isfinite(value) && value > 0 ? "+" : "").append(significant(value, digits));
}

std::string percent(double share) { return std::isfinite(share) ? fixed(100 * share, 0) + " %" : "-"; }

int decimals_of_error(double error, int digits, int more) {
  int decimals = digits;
  while (error > 0 && decimals < digits + more && 2 * error < std::pow(10, -decimals)) ++decimals;
  return decimals;
}

std::string grouped(long long count) {
  std::string s = std::to_string(count);
  for (std::size_t i = s.size(); i > 3 + (count < 0 ? 1u : 0u); i -= 3) s.insert(i - 3, 1, ' ');
  return s;
}

std::size_t display_width(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

table::table(std::vector<column> columns) : columns_(std::move(columns)) {
  for (column& c : columns_) c.header = printable(c.header, c.header.size());
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> all;
  for (std::size_t i = 0, skip = 0; i < text.size(); i += all.back().size())
    all.push_back(text.substr(i, std::max<std::size_t>(1, well_formed_size(text, i, &skip))));
  return all;
}

table::table(const std::vector<std::string>& words, const std::vector<std::string>& numbers,
             const std::vector<std::string>& more_words, const std::vector<std::string>& more_numbers) {
  const auto add = [&](const std::vector<std::string>& headers, align side) {
    for (const auto& header : headers) columns_.push_back({printable(header, header.size()), side});
  };
  add(words, align::left);
  add(numbers, align::right);
  add(more_words, align::left);
  add(more_numbers, align::right);
}

void table::row(std::vector<std::string> cells) {
  require(cells.size() <= columns_.size(), "a row of ", cells.size(), " cells in a table of ", columns_.size(),
          " columns");
  cells.resize(columns_.size());
  for (std::string& c : cells) c = printable(c, c.size());
  rows_.push_back(std::move(cells));
}

void table::rule() { rows_.emplace_back(); }

std::string table::str(bool bold) const {
  std::vector<std::size_t> width;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    width.push_back(display_width(columns_[c].header));
    for (const auto& row : rows_)
      if (!row.empty()) width[c] = std::max(width[c], display_width(row[c]));
  }
  std::size_t total = columns_.empty() ? 0 : 2 * (columns_.size() - 1);
  for (const std::size_t w : width) total += w;
  const std::string line = "  " + repeated("─", total) + "\n";
  const auto cells = [&](const auto& text_of) {
    std::string s = "  ";
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const std::string text = text_of(c);
      const std::string space(width[c] - display_width(text), ' ');
      s += (c > 0 ? "  " : "") + (columns_[c].side == align::left ? text + space : space + text);
    }
    s.erase(s.find_last_not_of(' ') + 1);
    return s + "\n";
  };
  std::string s = cells([&](std::size_t c) { return columns_[c].header; });
  if (bold) s = "\033[1m" + s.substr(0, s.size() - 1) + "\033[0m\n";
  s += line;
  for (const auto& row : rows_) s += row.empty() ? line : cells([&](std::size_t c) { return row[c]; });
  return s;
}

printer::printer(std::FILE* out) : out_(out) {
  const char* plain = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  bold_ = out && ::isatty(::fileno(out)) && !(plain && *plain) && !(terminal && std::strcmp(terminal, "dumb") == 0);
}

void printer::heading(const std::string& text) {
  std::fprintf(out_, bold_ ? "\n\033[1m%s\033[0m\n\n" : "\n%s\n\n", terminal_text(text).c_str());
}

void printer::line(const std::string& text) { std::fprintf(out_, "%s\n", terminal_text(text).c_str()); }

void printer::print(const table& t) { std::fputs(t.str(bold_).c_str(), out_); }

}  // namespace qkgeom::examples
