// SPDX-License-Identifier: MIT
// Judges each claim by its expression in claims.csv, or by the function of its id.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "examples/thesis/claims.hpp"
#include "examples/thesis/expression.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/csv.hpp"

namespace qkgeom::examples::thesis {
namespace {

std::vector<stated_claim> read_claims(const std::filesystem::path& file) {
  const auto table = read_csv(file);
  const auto value = table.numbers("value"), upper = table.numbers("upper"), tolerance = table.numbers("tolerance");
  std::vector<stated_claim> claims;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const auto text = [&](const char* column) { return table.column(column)[i]; };
    claims.push_back({.id = text("id"),
                      .lists = text("lists"),
                      .where = text("where"),
                      .statement = text("statement"),
                      .thesis = text("thesis"),
                      .value = value[i],
                      .upper = std::isnan(upper[i]) ? value[i] : upper[i],
                      .tolerance = std::isnan(tolerance[i]) ? 0 : tolerance[i],
                      .captures = text("captures"),
                      .computed = text("computed"),
                      .cases = text("cases"),
                      .note = text("note")});
  }
  return claims;
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find("; ", begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 2;
  }
  return parts;
}

/// Adds what an expression gives, without the rows whose numbers are unknown. `cases` names conditions.
void add(finding& found, const published& p, const std::string& expression, const std::string& cases) {
  const auto v = p.evaluate(expression);
  require(v.is == value::kind::numbers || v.is == value::kind::condition, '"', expression,
          "\" gives neither numbers nor conditions");
  const auto names = cases.empty() ? std::vector<std::string>{} : p.words_by_row(cases);
  require(names.size() <= 1 || names.size() == v.numbers.size(), '"', cases, "\" names ", names.size(), " cases, \"",
          expression, "\" gives ", v.numbers.size());
  for (std::size_t i = 0; i < v.numbers.size(); ++i)
    if (!std::isnan(v.numbers[i])) {
      if (v.is == value::kind::numbers)
        found.numbers.push_back(v.numbers[i]);
      else
        found.conditions.emplace_back(names.empty() ? v.name_of(i) : names[names.size() == 1 ? 0 : i],
                                      v.numbers[i] == 1);
    }
}

verdict judge(const stated_claim& claim, const finding& found) {
  if (found.undecided) return verdict::undecided;
  std::size_t right = 0, all = found.conditions.size();
  for (const auto& condition : found.conditions) right += condition.second;
  if (!std::isnan(claim.value)) {
    require(found.conditions.empty() && !found.numbers.empty(), "claim ", claim.id,
            " states a number, so what it computes must be numbers");
    all = found.numbers.size();
    for (const double v : found.numbers)  // 1e-9: sums of printed decimals are rounded
      right += v >= claim.value - claim.tolerance - 1e-9 && v <= claim.upper + claim.tolerance + 1e-9;
  }
  require(all > 0, "claim ", claim.id, " states no number, so what it computes must be conditions");
  return right == all ? verdict::yes : right == 0 ? verdict::no : verdict::in_part;
}

std::string shown(const finding& found) {
  if (!found.text.empty() || (found.conditions.empty() && found.numbers.empty())) return found.text;
  if (found.conditions.empty()) return listed(found.numbers);
  std::size_t held = 0;
  std::string failing;
  for (const auto& [name, holds] : found.conditions) {
    held += holds;
    if (!holds) failing += (failing.empty() ? "" : ", ") + name;
  }
  const auto n = found.conditions.size();
  if (held == n) return n == 1 ? "holds" : "holds for all " + std::to_string(n);
  if (n == 1) return "does not hold";
  return "holds for " + std::to_string(held) + " of " + std::to_string(n) + ", not for " + failing;
}

}  // namespace

finding find_by_expression(const stated_claim& claim, const published& p) {
  try {
    finding found;
    const auto computed = parts_of(claim.computed), cases = parts_of(claim.cases);
    require(cases.empty() || cases.size() == computed.size(), "it computes ", computed.size(), " things and names ",
            cases.size());
    for (std::size_t i = 0; i < computed.size(); ++i) add(found, p, computed[i], cases.empty() ? "" : cases[i]);
    found.note = p.words(claim.note);
    return found;
  } catch (const error& e) {
    fail("claims.csv: the claim ", claim.id, ": ", e.what());
  }
}

std::vector<judged_claim> judge_claims(const std::filesystem::path& folder, const published& p) {
  const auto functions = procedures();
  std::vector<judged_claim> judged;
  std::set<std::string> seen;
  for (auto& claim : read_claims(folder / "claims.csv")) {
    require(seen.insert(claim.id).second, "claims.csv: the claim ", claim.id, " is there twice");
    const auto function = functions.find(claim.id);
    require(
        claim.computed.empty() == (function != functions.end()), "claims.csv: ",
        claim.computed.empty() ? "no expression and no function recomputes" : "an expression and a function recompute",
        " the claim ", claim.id);
    judged_claim j{.stated = claim,
                   .found = function != functions.end() ? function->second(p)
                            : !claim.captures.empty()   ? find_in_captures(claim, p)
                                                        : find_by_expression(claim, p),
                   .recomputed = {}};
    j.agrees = judge(j.stated, j.found);
    j.recomputed = shown(j.found);
    judged.push_back(std::move(j));
  }
  for (const auto& f : functions) require(seen.count(f.first) == 1, "claims.csv: the claim ", f.first, " is missing");
  return judged;
}

void write_claims(const std::filesystem::path& file, const std::vector<judged_claim>& claims) {
  csv_writer csv(file, {"id", "claim", "where", "thesis", "recomputed", "agrees", "note", "lists"});
  for (const auto& c : claims)
    csv.row(c.stated.id, c.stated.statement, c.stated.where, c.stated.thesis, c.recomputed, name_of(c.agrees),
            c.found.note, c.stated.lists);
  csv.commit();
}

void print_claims(printer& out, const std::vector<judged_claim>& claims) {
  out.heading("What the thesis states, and what its tables give");
  table t({"where", "claim", "thesis", "recomputed", "agrees"}, {});
  std::map<verdict, int> count;
  for (const auto& c : claims) {
    const auto names =
        c.recomputed.size() > 60 ? c.recomputed.find(", not for") : std::string::npos;  // a terminal is narrow
    t.row({c.stated.where, c.stated.statement, c.stated.thesis, c.recomputed.substr(0, names), name_of(c.agrees)});
    ++count[c.agrees];
  }
  out.print(t);
  out.line(std::to_string(claims.size()) + " claims: " + std::to_string(count[verdict::yes]) + " agree, " +
           std::to_string(count[verdict::in_part]) + " in part, " + std::to_string(count[verdict::no]) + " do not, " +
           std::to_string(count[verdict::undecided]) + " need captures.");
}

}  // namespace qkgeom::examples::thesis
