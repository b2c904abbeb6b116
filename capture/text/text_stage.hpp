// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "qkgeom/core/budget.hpp"

namespace qkgeom {

/// A piece of a document on its way through the tokenizer, well-formed UTF-8.
struct text_piece {
  std::string_view text;
  std::size_t at_start = 0;  ///< its first bytes that stand for the document's first character
  budget* made = nullptr;    ///< bytes that stages may still make of the document; each stage spends from it

  text_piece part(std::size_t begin, std::size_t end) const {
    return {text.substr(begin, end - begin), std::min(at_start, end) - std::min(at_start, begin), made};
  }
};

/// Returns the bytes that stages may make of a document of `bytes` bytes. A tokenizer.json whose replacements feed each
/// other would make text without end.
inline budget stage_budget(std::size_t bytes) {
  return {100 * bytes + (std::size_t{1} << 20),
          "tokenizer.json: normalizer and pre_tokenizer make more than 100 times the text they are given"};
}

/// Takes the pieces that a stage makes, in order. Returns false to stop.
using piece_sink = std::function<bool(text_piece)>;

/// One step from text to words: a normalizer changes a piece, a pre-tokenizer splits it. Passes the resulting pieces to
/// the sink; stops and returns false as soon as the sink does. So a document is tokenized only as far as its first
/// `max_tokens` tokens need.
using text_stage = std::function<bool(text_piece, const piece_sink&)>;
using text_stages = std::vector<text_stage>;

/// Reads the stages of tokenizer.json's "normalizer" or "pre_tokenizer" (null: no stages; a Sequence is flattened).
/// Throws `error` on an unknown type, naming it and the supported ones, and on more than 64 stages.
text_stages read_normalizer(const nlohmann::json* object);
text_stages read_pre_tokenizer(const nlohmann::json* object);

/// Runs `piece` through the stages from index `first` on.
bool run_stages(const text_stages& stages, std::size_t first, text_piece piece, const piece_sink& sink);

}  // namespace qkgeom
