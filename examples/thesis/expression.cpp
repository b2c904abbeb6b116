// SPDX-License-Identifier: MIT
// Reads and evaluates the expressions of claims.csv and definitions.csv in one pass. data/README.md describes them.

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>

#include "examples/common/table.hpp"
#include "examples/thesis/published.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom::examples::thesis {
namespace {

bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

class reader {
 public:
  /// Reads `text`, where a name is first looked up among the columns of `scope`.
  reader(const published& p, std::string_view text, const table_rows* scope, int depth)
      : p_(p), text_(text), scope_(scope), depth_(depth) {
    require(depth < 20, "a definition leads back to itself");
  }

  value all() {
    auto result = joined();
    require(peek() == 0, "\"", text_.substr(at_), "\" is left over");
    return result;
  }

 private:
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : 0;
  }
  bool accept(std::string_view token) {
    peek();
    if (text_.substr(at_, token.size()) != token) return false;
    const auto after = at_ + token.size();
    if (in_name(token[0]) && after < text_.size() && in_name(text_[after])) return false;
    at_ = after;
    return true;
  }
  void expect(std::string_view token) {
    require(accept(token), "\"", token, "\" is missing before \"", text_.substr(at_), '"');
  }
  std::string_view take_name() {
    peek();
    const auto begin = at_;
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    require(at_ > begin, "a name is missing before \"", text_.substr(begin), '"');
    return text_.substr(begin, at_ - begin);
  }
  /// The text up to the bracket that closes one just read.
  std::string_view inside(char open, char close) {
    const auto begin = at_;
    bool quoted = false;
    for (int level = 1; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\'') quoted = !quoted;
      if (!quoted && c == open) ++level;
      if (!quoted && c == close && --level == 0) return text_.substr(begin, at_++ - begin);
    }
    fail("\"", close, "\" is missing at the end");
  }
  value in_scope(const table_rows& rows, std::string_view text) const {
    return reader(p_, text, &rows, depth_ + 1).all();
  }

  /// Reads operands joined by the signs of a level or of a later one, which binds closer.
  value joined(std::size_t level = 0) {
    static const std::vector<std::vector<std::string_view>> levels{
        {"or"}, {"and"}, {"<=", ">=", "!=", "<", ">", "=", "~"}, {"+", "-"}, {"*", "/"}};
    if (level == levels.size()) return factor();
    auto left = joined(level + 1);
    for (bool more = true; more;) {
      const auto sign = std::find_if(levels[level].begin(), levels[level].end(), [&](auto s) { return accept(s); });
      more = sign != levels[level].end();
      if (more) left = combine(*sign, left, joined(level + 1));
    }
    return left;
  }
  value factor() {
    if (accept("-")) return combine("-", {.numbers = {0}}, factor());
    auto v = operand();
    for (;;)
      if (accept("."))
        v = member(v);
      else if (accept("["))
        v = chosen(v, inside('[', ']'));
      else
        return v;
  }
  value operand() {
    if (accept("(")) {
      auto v = joined();
      expect(")");
      return v;
    }
    if (accept("'")) {
      const auto end = text_.find('\'', at_);
      require(end != std::string_view::npos, "a text lacks its closing '");
      value v{.is = value::kind::texts, .texts = {std::string(text_.substr(at_, end - at_))}};
      at_ = end + 1;
      return v;
    }
    if (std::isdigit(static_cast<unsigned char>(peek()))) {
      double x = 0;
      const auto result = std::from_chars(text_.data() + at_, text_.data() + text_.size(), x);
      at_ = static_cast<std::size_t>(result.ptr - text_.data());
      return {.numbers = {x}};
    }
    const auto name = take_name();
    if (!accept("(")) return named(name);
    std::vector<value> arguments{joined()};
    while (accept(",")) arguments.push_back(joined());
    expect(")");
    return apply_operator(name, arguments);
  }

  value named(std::string_view name) const {
    value found;
    if (scope_ && column(*scope_, name, found)) return found;
    if (const auto* meaning = p_.definition(name)) return reader(p_, *meaning, nullptr, depth_ + 1).all();
    const auto* table = p_.table(name);
    require(table, scope_ ? "the table " + scope_->table->name + " has no column " : "there is no table or definition ",
            name);
    value v{.is = value::kind::rows, .rows = {.table = table, .index = std::vector<std::size_t>(table->rows.size())}};
    std::iota(v.rows.index.begin(), v.rows.index.end(), std::size_t{0});
    return v;
  }

  /// Finds a column of `rows`: one of the table, `name`, or one that a definition TABLE.NAME computes.
  bool column(const table_rows& rows, std::string_view name, value& v) const {
    if (const auto* meaning = p_.definition(rows.table->name + '.' + std::string(name))) {
      v = in_scope(rows, *meaning);
      return true;
    }
    v = {};
    for (const auto i : rows.index) v.names.push_back(rows.table->rows[i]);
    if (name == "name") {
      v.is = value::kind::texts;
      v.texts = v.names;
      return true;
    }
    const auto found = rows.table->columns.find(name);
    if (found == rows.table->columns.end()) return false;
    const auto& c = found->second;
    v.entries = c.entries;
    if (c.is_text) v.is = value::kind::texts;
    for (const auto i : rows.index)
      if (!c.numbers.empty())
        v.numbers.push_back(c.numbers[i]);
      else
        for (std::size_t j = 0; j < c.width(); ++j) {
          const std::string text = c.printed[i].empty() ? "" : c.printed[i][j];
          if (c.is_text)
            v.texts.push_back(text);
          else
            v.numbers.push_back(printed_number(text, c.file));
        }
    return true;
  }

  value member(const value& v) {
    require(v.is == value::kind::rows, "\".\" follows a table, not a column");
    if (accept("(")) return in_scope(v.rows, inside('(', ')'));
    const auto name = take_name();
    value result;
    require(column(v.rows, name, result), "the table ", v.rows.table->name, " has no column ", name);
    return result;
  }

  /// Rows of a table by their name or by a condition; an entry of a profile by its name.
  value chosen(const value& v, std::string_view what) const {
    if (v.is != value::kind::rows) return entry(v, what);
    value result{.is = value::kind::rows, .rows = {.table = v.rows.table}};
    for (const auto i : v.rows.index)
      if (v.rows.table->rows[i] == what) result.rows.index.push_back(i);
    if (!result.rows.index.empty()) return result;
    require(what.find_first_of("=<>~") != std::string_view::npos, "the table ", v.rows.table->name, " has no row ",
            what);
    const auto condition = in_scope(v.rows, what);
    require(condition.is == value::kind::condition && condition.numbers.size() == v.rows.index.size(), "\"", what,
            "\" is no condition on rows");
    for (std::size_t i = 0; i < v.rows.index.size(); ++i)
      if (condition.numbers[i] == 1) result.rows.index.push_back(v.rows.index[i]);
    return result;
  }
  static value entry(const value& v, std::string_view name) {
    const auto at = std::find(v.entries.begin(), v.entries.end(), name);
    require(at != v.entries.end(), "a profile has no entry ", name);
    value result{.names = v.names};
    for (auto i = static_cast<std::size_t>(at - v.entries.begin()); i < v.numbers.size(); i += v.width())
      result.numbers.push_back(v.numbers[i]);
    return result;
  }

  const published& p_;
  std::string_view text_;
  std::size_t at_ = 0;
  const table_rows* scope_;
  int depth_;
};

/// A number as a format says: 3 decimals "3", with a sign "+3", 3 significant digits "s3", the same without trailing
/// zeros "t3", a share "%", a length "K", as the tables print it "p".
std::string formatted(double x, std::string_view format) {
  const auto digits = [&](std::size_t from) {
    int n = 0;
    const auto result = std::from_chars(format.data() + from, format.data() + format.size(), n);
    require(result.ec == std::errc() && result.ptr == format.data() + format.size(), "there is no format ", format);
    return n;
  };
  if (std::isnan(x)) return "";
  if (format.empty()) return trimmed(x);
  if (format == "%") return percent(x);
  if (format == "K") return length_words(x);
  if (format == "p") return std::abs(x) < 0.005 && x != 0 ? significant(x) : fixed(x, 3);
  if (format[0] == '+') return signed_fixed(x, digits(1));
  if (format[0] == 's') return significant(x, digits(1));
  if (format[0] == 't') return trimmed(x, digits(1));
  return fixed(x, digits(0));
}

/// The texts of a value. A format may begin with words, in which "name" stands for the row: "name over K".
std::vector<std::string> formatted(const value& v, std::string_view format) {
  require(v.is != value::kind::rows, "a table has no text; name a column");
  if (v.is == value::kind::texts) return v.texts;
  const auto space = format.rfind(' ');
  const std::string words(space == std::string_view::npos ? "" : format.substr(0, space + 1));
  const auto at = words.find("name");
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < v.numbers.size(); ++i) {
    auto text = words;
    if (at != std::string::npos) text.replace(at, 4, v.name_of(i));
    const auto number = formatted(v.numbers[i], format.substr(words.size()));
    texts.push_back(number.empty() ? "" : text + number);
  }
  return texts;
}

/// Calls `piece(literal, expression, format)` for the parts of a text, the last with an empty expression.
template <class Piece>
void for_each_piece(std::string_view text, const Piece& piece) {
  for (;;) {
    const auto open = text.find('{');
    if (open == std::string_view::npos) return piece(text, std::string_view(), std::string_view());
    const auto close = text.find('}', open);
    require(close != std::string_view::npos, "\"}\" is missing in \"", text, '"');
    const auto inside = text.substr(open + 1, close - open - 1);
    const auto colon = std::min(inside.find(':'), inside.size());
    piece(text.substr(0, open), inside.substr(0, colon), inside.substr(std::min(colon + 1, inside.size())));
    text.remove_prefix(close + 1);
  }
}

}  // namespace

std::string value::name_of(std::size_t i) const {
  const std::string row = names.empty() ? "" : names[i / width()];
  if (entries.empty()) return row;
  return (height() > 1 ? row + ' ' : "") + entries[i % width()];
}

value published::evaluate(std::string_view expression) const {
  try {
    return reader(*this, expression, nullptr, 0).all();
  } catch (const error& e) {
    fail("in \"", expression, "\": ", e.what());
  }
}

std::vector<double> published::numbers(std::string_view expression) const {
  auto v = evaluate(expression);
  require(v.is == value::kind::numbers || v.is == value::kind::condition, '"', expression, "\" gives no numbers");
  return v.numbers;
}

double published::number(std::string_view expression) const {
  const auto all = numbers(expression);
  require(all.size() == 1, '"', expression, "\" gives ", all.size(), " numbers, not one");
  return all.front();
}

std::vector<std::vector<double>> published::profiles(std::string_view expression) const {
  const auto v = evaluate(expression);
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 0; i < v.numbers.size(); i += v.width())
    rows.emplace_back(v.numbers.begin() + static_cast<std::ptrdiff_t>(i),
                      v.numbers.begin() + static_cast<std::ptrdiff_t>(i + v.width()));
  return rows;
}

std::vector<std::string> published::texts(std::string_view expression) const {
  return formatted(evaluate(expression), "");
}

std::string published::words(std::string_view text) const {
  std::string result;
  for_each_piece(text, [&](std::string_view literal, std::string_view expression, std::string_view format) {
    result += literal;
    if (expression.empty()) return;
    auto v = evaluate(expression);
    auto items = formatted(v, format);
    if (v.is != value::kind::texts) {
      items.erase(std::remove(items.begin(), items.end(), ""), items.end());
      v.numbers.erase(std::remove_if(v.numbers.begin(), v.numbers.end(), [](double x) { return std::isnan(x); }),
                      v.numbers.end());
      const auto [low, high] = std::minmax_element(v.numbers.begin(), v.numbers.end());
      if (items.size() > 6)
        items = {formatted(*low, format) + " to " + formatted(*high, format) + " (" + std::to_string(items.size()) +
                 ")"};
    }
    if (items.empty()) result += "none";
    for (std::size_t i = 0; i < items.size(); ++i) result += (i ? ", " : "") + items[i];
  });
  return result;
}

std::vector<std::string> published::words_by_row(std::string_view text, const std::string& rows) const {
  std::vector<std::string> lines{""};
  for_each_piece(text, [&](std::string_view literal, std::string_view expression, std::string_view format) {
    for (auto& line : lines) line += literal;
    if (expression.empty()) return;
    const auto v = evaluate(rows.empty() ? std::string(expression) : rows + ".(" + std::string(expression) + ')');
    const auto items = formatted(v, format);
    require(items.size() == lines.size() || items.size() == 1 || lines.size() == 1, "in \"", text, "\": \"", expression,
            "\" gives ", items.size(), " values, what stands before it ", lines.size());
    if (lines.size() == 1) lines.resize(items.size(), std::string(lines.front()));
    for (std::size_t i = 0; i < lines.size(); ++i) lines[i] += items[items.size() == 1 ? 0 : i];
  });
  return lines;
}

}  // namespace qkgeom::examples::thesis
