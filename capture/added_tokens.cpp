// SPDX-License-Identifier: MIT
#include "capture/added_tokens.hpp"

#include "capture/utf8.hpp"

namespace qkgeom {
namespace {

/// Start of the white space that ends at byte `end`, not before `low`.
std::size_t space_before(std::string_view text, std::size_t low, std::size_t end) {
  while (end > low) {
    std::size_t i = end - 1;
    while (i > low && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) --i;
    if (!is_space(utf8_at(text, i))) break;
    end = i;
  }
  return end;
}

/// End of the white space that starts at byte `i`.
std::size_t space_after(std::string_view text, std::size_t i) {
  while (i < text.size() && is_space(utf8_at(text, i))) i += utf8_size(static_cast<unsigned char>(text[i]));
  return i;
}

}  // namespace

void added_token_finder::add(std::string_view content, std::int32_t id, options o) {
  if (content.empty()) return;
  std::uint32_t at = 0;
  for (const char c : content) {
    const auto fresh = static_cast<std::uint32_t>(nodes_.size());
    const auto [i, added] = nodes_[at].next.emplace(static_cast<unsigned char>(c), fresh);
    at = i->second;
    if (added) nodes_.emplace_back();
  }
  nodes_[at].id = id;
  nodes_[at].strip = o;
  starts_[static_cast<unsigned char>(content[0])] = true;
}

bool added_token_finder::find(std::string_view text, std::size_t from, match* m) const {
  if (empty()) return false;
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<unsigned char>(text[begin])]) continue;
    const node* longest = nullptr;
    std::size_t end = begin;
    std::uint32_t at = 0;
    for (std::size_t i = begin; i < text.size(); ++i) {
      const auto next = nodes_[at].next.find(static_cast<unsigned char>(text[i]));
      if (next == nodes_[at].next.end()) break;
      at = next->second;
      if (nodes_[at].id < 0) continue;
      longest = &nodes_[at];
      end = i + 1;
    }
    if (!longest) continue;
    *m = {longest->strip.strip_left ? space_before(text, from, begin) : begin,
          longest->strip.strip_right ? space_after(text, end) : end, longest->id};
    return true;
  }
  return false;
}

}  // namespace qkgeom
