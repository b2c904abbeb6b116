// SPDX-License-Identifier: MIT
#include "capture/model/head_list.hpp"

#include <algorithm>
#include <string_view>

#include "qkgeom/io/file.hpp"
#include "qkgeom/io/whole_number.hpp"

namespace qkgeom {
namespace {

constexpr index_t most = 1 << 20;

index_t number(std::string_view text, const std::string& where) {
  const auto n = whole_number<index_t>(text);
  require(n && *n >= 0 && *n < most, where, ": heads must be LAYER.HEAD, e.g. 3.12, not '", printable(text), "'");
  return *n;
}

std::vector<head_id> in_order(std::vector<head_id> heads, const std::string& where) {
  require(!heads.empty(), where, ": the list names no head");
  std::sort(heads.begin(), heads.end());
  const auto twice = std::adjacent_find(heads.begin(), heads.end());
  if (twice != heads.end()) fail(where, ": the list names layer ", twice->layer, " head ", twice->head, " twice");
  return heads;
}

}  // namespace

std::vector<head_id> parse_head_words(std::string_view text, const std::string& where) {
  std::vector<head_id> heads;
  constexpr std::string_view between = " \t\r\n,";
  while (!text.empty()) {
    if (text[0] == '#') text.remove_prefix(std::min(text.find('\n'), text.size()));
    const std::size_t end = std::min(text.find_first_of(" \t\r\n,#"), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(between), text.size()));
    if (word.empty()) continue;
    heads.push_back(parse_head(word, where));
  }
  return in_order(std::move(heads), where);
}

head_id parse_head(std::string_view word, const std::string& where) {
  const std::size_t dot = std::min(word.find('.'), word.size());
  require(dot < word.size(), where, ": heads must be LAYER.HEAD, e.g. 3.12, not '", printable(std::string(word)), "'");
  return {number(word.substr(0, dot), where), number(word.substr(dot + 1), where)};
}

std::vector<head_id> parse_head_lists(const json& object, const std::string& where) {
  const json_value v(object, where);
  v.expect(v.is_object(), "an object with a list of heads for each layer");
  std::vector<head_id> heads;
  for (const auto& [layer, list] : object.items())
    for (const index_t head : json_value(list, where, printable(layer)).integers(0, most))
      heads.push_back({number(layer, where), head});
  return in_order(std::move(heads), where);
}

std::vector<head_id> read_head_list(const std::filesystem::path& path) {
  const std::string text = read_text(path, std::size_t{4} << 20), where = path.string();
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return parse_head_lists(parse_json(text, where), where);
  return parse_head_words(text, where);
}

}  // namespace qkgeom
