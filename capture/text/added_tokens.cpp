// SPDX-License-Identifier: MIT
#include "capture/text/added_tokens.hpp"

#include <algorithm>

#include "capture/text/unicode.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {
namespace {

constexpr std::size_t most_nodes = 1 << 20;  // each takes about 120 bytes of memory

/// Returns whether a word character ends before byte `begin` or starts at byte `end`.
bool within_word(std::string_view text, std::size_t begin, std::size_t end) {
  return (end < text.size() && is_word_character(next_character(text, &end))) ||
         (begin > 0 && is_word_character(previous_character(text, &begin)));
}

}  // namespace

void added_token_finder::add(std::string_view content, std::int32_t id, options how) {
  if (content.empty()) return;
  std::uint32_t current = 0;
  for (const char c : content) {
    const auto fresh = static_cast<std::uint32_t>(nodes_.size());
    const auto [i, added] = nodes_[current].next.emplace(static_cast<unsigned char>(c), fresh);
    current = i->second;
    if (!added) continue;
    require(nodes_.size() < most_nodes, "tokenizer.json: added_tokens have more than ", most_nodes, " bytes");
    nodes_.emplace_back();
  }
  nodes_[current].id = id;
  nodes_[current].how = how;
  starts_[static_cast<unsigned char>(content[0])] = true;
}

/// Finds the longest token at byte `begin`, or null; `*end` becomes its end.
const added_token_finder::node* added_token_finder::longest(std::string_view text, std::size_t begin,
                                                            std::size_t* end) const {
  const node* found = nullptr;
  std::uint32_t current = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const auto next = nodes_[current].next.find(static_cast<unsigned char>(text[i]));
    if (next == nodes_[current].next.end()) break;
    current = next->second;
    if (nodes_[current].id < 0) continue;
    found = &nodes_[current];
    *end = i + 1;
  }
  return found;
}

bool added_token_finder::cursor::next(match* m) {
  if (finder_.empty()) return false;
  for (; from_ < text_.size(); ++from_) {
    if (!finder_.starts_[static_cast<unsigned char>(text_[from_])]) continue;
    std::size_t begin = from_, end = from_;
    const node* token = finder_.longest(text_, begin, &end);
    if (!token) continue;
    if (token->how.single_word && within_word(text_, begin, end)) {
      from_ = end - 1;  // its bytes are not searched again
      continue;
    }
    from_ = end;
    if (token->how.strip_left) begin = std::max(space_before(text_, 0, begin), done_);
    if (token->how.strip_right) end = space_after(text_, end);
    done_ = end;
    if (begin >= end) {  // white space that the previous token consumed
      --from_;
      continue;
    }
    *m = {begin, end, token->id};
    return true;
  }
  return false;
}

}  // namespace qkgeom
