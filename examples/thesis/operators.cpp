// SPDX-License-Identifier: MIT
#include "examples/thesis/published.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "qkgeom/core/error.hpp"
#include "qkgeom/stats/association.hpp"
#include "qkgeom/stats/resampling.hpp"
#include "qkgeom/stats/shape.hpp"

namespace qkgeom::examples::thesis {
namespace {

using reals = std::vector<double>;
using values = std::vector<value>;

value one_number(double x) { return {.numbers = {x}}; }

reals known(reals x) {
  x.erase(std::remove_if(x.begin(), x.end(), [](double v) { return std::isnan(v); }), x.end());
  return x;
}

/// f of each number.
template <class Function>
auto by_number(Function f) {
  return [f](const values& a) {
    auto result = a[0];
    for (auto& x : result.numbers) x = f(x);
    return result;
  };
}

/// f of the known numbers of all rows, for each entry of a profile.
template <class Function>
auto over_rows(Function f) {
  return [f](const values& a) {
    value result{.entries = a[0].entries};
    for (std::size_t j = 0; j < a[0].width(); ++j) {
      reals column;
      for (std::size_t i = j; i < a[0].numbers.size(); i += a[0].width()) column.push_back(a[0].numbers[i]);
      column = known(std::move(column));
      require(!column.empty(), "no row has a number");
      result.numbers.push_back(f(column));
    }
    return result;
  };
}

/// f of the entries of each row's profile; unknown if one of them is.
template <class Function>
auto over_entries(Function f) {
  return [f](const values& a) {
    value result{.names = a[0].names};
    for (auto row = a[0].numbers.begin(); row != a[0].numbers.end(); row += static_cast<std::ptrdiff_t>(a[0].width())) {
      const reals entries(row, row + static_cast<std::ptrdiff_t>(a[0].width()));
      result.numbers.push_back(known(entries).size() == entries.size() ? f(entries) : unknown);
    }
    return result;
  };
}

/// f(x, y) of the rows in which both are known.
template <class Function>
auto of_two(Function f) {
  return [f](const values& a) {
    require(a[0].numbers.size() == a[1].numbers.size(), "one column has ", a[0].numbers.size(), " rows, the other ",
            a[1].numbers.size());
    reals x, y;
    for (std::size_t i = 0; i < a[0].numbers.size(); ++i)
      if (!std::isnan(a[0].numbers[i]) && !std::isnan(a[1].numbers[i]))
        x.push_back(a[0].numbers[i]), y.push_back(a[1].numbers[i]);
    return one_number(f(x, y));
  };
}

reals counting(std::size_t n) {
  reals x(n);
  std::iota(x.begin(), x.end(), 0.0);
  return x;
}

double deviation_over_mean(const reals& x) {
  const auto shape = shape_of(x);
  return shape.deviation / shape.mean;
}

/// The largest rise from one entry to the next; 0 if none rises.
double largest_rise(const reals& profile) {
  double rise = 0;
  for (std::size_t i = 1; i < profile.size(); ++i) rise = std::max(rise, profile[i] - profile[i - 1]);
  return rise;
}

/// Means over neighbouring rows of one name: the heads of each model.
value means_by_name(const values& a) {
  value result;
  for (std::size_t i = 0; i < a[0].names.size();) {
    reals same;
    result.names.push_back(a[0].names[i]);
    for (; i < a[0].names.size() && a[0].names[i] == result.names.back(); ++i) same.push_back(a[0].numbers[i]);
    result.numbers.push_back(mean(known(same)));
  }
  return result;
}

/// The positions, in tokens, at which the entries of a profile end: 8192 for "0-8K".
value ends_of_entries(const values& a) {
  value result{.entries = a[0].entries};
  for (const auto& entry : a[0].entries) result.numbers.push_back(token_count(entry.substr(entry.find('-') + 1)));
  return result;
}

/// The value of the row before; the first row's is unknown.
value previous(const values& a) {
  auto result = a[0];
  const auto shift = [&](auto& cells, std::size_t width, const auto& first) {
    cells.insert(cells.begin(), width, first);
    cells.resize(cells.size() - width);
  };
  if (result.is == value::kind::texts)
    shift(result.texts, 1, std::string());
  else
    shift(result.numbers, result.width(), unknown);
  return result;
}

/// Rows of a table by falling values of a column.
value falling(const values& a) {
  std::vector<std::size_t> order(a[1].numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t i, std::size_t j) { return a[1].numbers[i] > a[1].numbers[j]; });
  value result = a[0];
  for (std::size_t i = 0; i < order.size(); ++i) result.rows.index[i] = a[0].rows.index[order[i]];
  return result;
}

auto coefficient(association kind) {
  return of_two([kind](const reals& x, const reals& y) { return associate(kind, x, y); });
}
auto exact_p(association kind) {
  return of_two([kind](const reals& x, const reals& y) { return test_association(kind, x, y).p; });
}

/// An operator with a letter for each argument: n numbers, c numbers or texts, r rows of a table.
struct table_operator {
  std::string_view takes;
  std::function<value(const values&)> apply;
};

const std::map<std::string_view, table_operator>& operators() {
  static const std::map<std::string_view, table_operator> all{
      {"abs", {"n", by_number([](double x) { return std::abs(x); })}},
      {"log", {"n", by_number([](double x) { return std::log(x); })}},
      {"mean", {"n", over_rows([](const reals& x) { return mean(x); })}},
      {"sum", {"n", over_rows([](const reals& x) { return std::accumulate(x.begin(), x.end(), 0.0); })}},
      {"low", {"n", over_rows([](const reals& x) { return *std::min_element(x.begin(), x.end()); })}},
      {"high", {"n", over_rows([](const reals& x) { return *std::max_element(x.begin(), x.end()); })}},
      {"spread", {"n", over_rows(deviation_over_mean)}},
      {"count", {"r", [](const values& a) { return one_number(static_cast<double>(a[0].rows.index.size())); }}},
      {"ascending",
       {"n",
        [](const values& a) {
          auto x = known(a[0].numbers);
          std::sort(x.begin(), x.end());
          return value{.names = std::vector<std::string>(x.size()), .numbers = x};
        }}},
      {"by_name", {"n", means_by_name}},
      {"average", {"n", over_entries([](const reals& x) { return mean(x); })}},
      {"recovery", {"n", over_entries([](const reals& x) { return recovery_of(x).rise; })}},
      {"rise", {"n", over_entries([](const reals& x) { return largest_rise(x); })}},
      {"slope", {"n", over_entries([](const reals& x) { return fit_line(counting(x.size()), x).slope; })}},
      {"straightness", {"n", over_entries([](const reals& x) {
                          const double r = associate(association::pearson, counting(x.size()), x);
                          return r * r;
                        })}},
      {"ends", {"n", ends_of_entries}},
      {"pearson", {"nn", coefficient(association::pearson)}},
      {"spearman", {"nn", coefficient(association::spearman)}},
      {"spearman_p", {"nn", exact_p(association::spearman)}},
      {"previous", {"c", previous}},
      {"falling", {"rn", falling}},
  };
  return all;
}

double of_numbers(std::string_view sign, double x, double y) {
  const auto truth = [&](bool holds) { return std::isnan(x) || std::isnan(y) ? unknown : holds ? 1.0 : 0.0; };
  if (sign == "+") return x + y;
  if (sign == "-") return x - y;
  if (sign == "*") return x * y;
  if (sign == "/") return x / y;
  if (sign == "<") return truth(x < y);
  if (sign == "<=") return truth(x <= y);
  if (sign == ">") return truth(x > y);
  if (sign == ">=") return truth(x >= y);
  if (sign == "=") return truth(x == y);
  if (sign == "!=") return truth(x != y);
  if (sign == "~") return truth(std::abs(x - y) <= printed_step + 1e-9);
  return truth(sign == "and" ? x == 1 && y == 1 : x == 1 || y == 1);
}

bool equal_texts(const std::string& text, const std::string& pattern) {
  if (pattern.empty() || pattern.back() != '*') return text == pattern;
  return text.compare(0, pattern.size() - 1, pattern, 0, pattern.size() - 1) == 0;
}

}  // namespace

value apply_operator(std::string_view name, const std::vector<value>& arguments) {
  const auto found = operators().find(name);
  require(found != operators().end(), "there is no operator ", name);
  const auto& [takes, apply] = found->second;
  require(arguments.size() == takes.size(), name, " takes ", takes.size(), " values, not ", arguments.size());
  for (std::size_t i = 0; i < takes.size(); ++i) {
    const auto is = arguments[i].is;
    require((takes[i] == 'r') == (is == value::kind::rows) && (takes[i] != 'n' || is != value::kind::texts), name,
            " takes ",
            takes[i] == 'r'   ? "a table"
            : takes[i] == 'n' ? "numbers"
                              : "a column",
            ", not ",
            is == value::kind::rows    ? "a table"
            : is == value::kind::texts ? "texts"
                                       : "numbers");
  }
  return apply(arguments);
}

value combine(std::string_view sign, const value& left, const value& right) {
  require(left.is != value::kind::rows && right.is != value::kind::rows, '"', sign, "\" is of columns, not of tables");
  const bool texts = left.is == value::kind::texts,
             arithmetic = std::string_view("+-*/").find(sign) != std::string_view::npos;
  require(texts == (right.is == value::kind::texts), '"', sign, "\" is of two numbers or of two texts");
  require(!texts || sign == "=" || sign == "!=", '"', sign, "\" is not of texts");
  require((sign != "and" && sign != "or") || (left.is == value::kind::condition && right.is == value::kind::condition),
          '"', sign, "\" is of conditions");
  const auto shared = [&](std::size_t x, std::size_t y, const char* what) {
    require(x == y || x == 1 || y == 1, '"', sign, "\" of ", x, " and ", y, ' ', what);
    return x == 1 ? y : x;
  };
  const auto rows = shared(left.height(), right.height(), "rows"),
             width = shared(left.width(), right.width(), "entries");
  const auto& named = left.names.size() == rows ? left : right;
  value result{.is = arithmetic ? value::kind::numbers : value::kind::condition,
               .names = named.names.size() == rows ? named.names : std::vector<std::string>{},
               .entries = left.width() == width ? left.entries : right.entries};
  require(rows == 1 || left.height() != rows || right.height() != rows || left.names == right.names, '"', sign,
          "\" is of two columns with different rows");
  const auto at = [&](const value& v, std::size_t i, std::size_t j) {
    return v.numbers[(v.height() == 1 ? 0 : i) * v.width() + (v.width() == 1 ? 0 : j)];
  };
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < width; ++j)
      result.numbers.push_back(texts ? equal_texts(left.texts[left.height() == 1 ? 0 : i],
                                                   right.texts[right.height() == 1 ? 0 : i]) == (sign == "=")
                                     : of_numbers(sign, at(left, i, j), at(right, i, j)));
  return result;
}

}  // namespace qkgeom::examples::thesis
