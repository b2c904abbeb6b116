// SPDX-License-Identifier: MIT
// Judges each claim with the function of its id.
#include <algorithm>
#include <map>
#include <set>

#include "examples/thesis/captured.hpp"
#include "examples/thesis/claims.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/io/csv.hpp"

namespace qkgeom::examples::thesis {
namespace {

std::vector<stated_claim> read_claims(const std::filesystem::path& file) {
  const auto table = read_csv(file);
  const auto value = table.numbers("value"), upper = table.numbers("upper"), tolerance = table.numbers("tolerance");
  std::vector<stated_claim> claims;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    stated_claim c{table.column("id")[i], table.column("lists")[i], table.column("where")[i],
                   table.column("statement")[i], table.column("thesis")[i]};
    c.value = value[i];
    c.upper = std::isnan(upper[i]) ? value[i] : upper[i];
    c.tolerance = std::isnan(tolerance[i]) ? 0 : tolerance[i];
    claims.push_back(std::move(c));
  }
  return claims;
}

verdict judge(const stated_claim& claim, const finding& found) {
  if (found.undecided) return verdict::undecided;
  std::size_t right = 0, all = found.conditions.size();
  for (const auto& condition : found.conditions) right += condition.second;
  if (!std::isnan(claim.value)) {
    require(found.conditions.empty() && !found.numbers.empty(), "claim ", claim.id,
            " states a number, its function must give numbers");
    all = found.numbers.size();
    for (const double v : found.numbers)  // 1e-9: sums of printed decimals are rounded
      right += v >= claim.value - claim.tolerance - 1e-9 && v <= claim.upper + claim.tolerance + 1e-9;
  }
  require(all > 0, "claim ", claim.id, " states no number, its function must give conditions");
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

finding numbers(std::vector<double> values, std::string note) {
  return {.numbers = std::move(values), .conditions = {}, .text = {}, .note = std::move(note)};
}

finding conditions(condition_list which, std::string note) {
  return {.numbers = {}, .conditions = std::move(which), .text = {}, .note = std::move(note)};
}

finding undecided(std::string note, std::string text) {
  return {.numbers = {}, .conditions = {}, .undecided = true, .text = std::move(text), .note = std::move(note)};
}

std::string trimmed(double value, int digits) {
  auto text = significant(value, digits);
  if (text.find('.') == std::string::npos || text.find('e') != std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string listed(const std::vector<double>& values, int digits) {
  if (values.size() > 6) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return trimmed(*low, digits) + " to " + trimmed(*high, digits) + " (" + std::to_string(values.size()) + ")";
  }
  std::string text;
  for (const double v : values) text += (text.empty() ? "" : ", ") + trimmed(v, digits);
  return text;
}

std::vector<judged_claim> judge_claims(const std::filesystem::path& folder, const published& p) {
  std::map<std::string, std::function<finding(const published&)>> functions;
  for (const auto& list :
       {geometry_claims(), profile_claims(), training_claims(), benchmark_claims(), note_claims(), captured_claims()})
    for (const auto& f : list) require(functions.emplace(f.id, f.compute).second, "two functions for the claim ", f.id);
  std::vector<judged_claim> judged;
  std::set<std::string> seen;
  for (auto& claim : read_claims(folder / "claims.csv")) {
    const auto function = functions.find(claim.id);
    require(function != functions.end(), "claims.csv: no function recomputes the claim ", claim.id);
    require(seen.insert(claim.id).second, "claims.csv: the claim ", claim.id, " is there twice");
    judged_claim j{
        .stated = std::move(claim), .found = function->second(p), .agrees = verdict::undecided, .recomputed = {}};
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
  table t({{"where", table::align::left},
           {"claim", table::align::left},
           {"thesis", table::align::left},
           {"recomputed", table::align::left},
           {"agrees", table::align::left}});
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
