// SPDX-License-Identifier: MIT
#include "examples/common/labels.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "examples/common/table.hpp"
#include "qkgeom/core/error.hpp"
#include "qkgeom/core/utf8.hpp"

namespace qkgeom::examples {

std::vector<std::string> capture_labels(const std::vector<std::filesystem::path>& captures,
                                        const std::vector<std::string>& given, const std::string& what) {
  require(given.empty() || given.size() == captures.size(), "--labels names ", given.size(), " ", what,
          "s, but there are ", captures.size(), " captures");
  std::vector<std::string> labels = given;
  if (labels.empty())
    for (const auto& path : captures) {
      const auto whole = std::filesystem::absolute(path).lexically_normal();
      const auto named = whole.has_filename() ? whole : whole.parent_path();
      labels.push_back((named.extension() == ".safetensors" ? named.stem() : named.filename()).string());
    }
  std::vector<std::string> sorted;  // labels become file names, so these must differ
  for (const auto& label : labels) sorted.push_back(file_name_of(label));
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  require(twice == sorted.end(), "two ", what, "s are called ", printable(twice == sorted.end() ? "" : *twice),
          "; give each a name with --labels");
  return labels;
}

std::string file_name_of(const std::string& text) {
  constexpr std::size_t longest = 120, kept = 111;  // bytes; file systems allow 255, and callers add words around
  const auto stays = [](std::string_view c) {
    return c.size() > 1 || std::isalnum(static_cast<unsigned char>(c[0])) || c.find_first_of("._-+=") == 0;
  };
  std::string name;
  for (const std::string_view c : characters(text)) name += stays(c) ? c : "_";
  if (name.size() <= longest) return name;
  // FNV-1a hash of the whole text tells apart names that begin alike.
  std::uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  std::size_t end = kept;
  while ((name[end] & 0xc0) == 0x80) --end;
  char tail[16];
  std::snprintf(tail, sizeof tail, "-%08x", static_cast<unsigned>(hash));
  return name.substr(0, end) + tail;
}

std::string words_for_heads(std::string_view group) {
  if (group == "all") return "all heads";
  return group == "rope" ? "RoPE layers" : "NoPE layers";
}

std::string words_for_heads(const head_group& group) {
  return words_for_heads(group.name) + " (" + std::to_string(group.heads.size()) + ")";
}

std::string with_error(const head_estimate& e, bool sign) {
  if (std::isnan(e.value)) return "-";
  if (!(std::isfinite(e.error) && e.error > 0)) return sign ? signed_significant(e.value) : significant(e.value);
  const int digits = std::clamp(1 - static_cast<int>(std::floor(std::log10(e.error))), 0, 9);
  return (sign ? signed_fixed(e.value, digits) : fixed(e.value, digits)) + " ± " + fixed(e.error, digits);
}

}  // namespace qkgeom::examples
