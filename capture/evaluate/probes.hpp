// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// A document that asks a model to recall something from `distance` tokens before. The tokens [first, ids.size()) are
/// the answers; each is predicted from all tokens before it.
struct probe {
  std::string kind;  ///< "copy" or "lookup"
  index_t distance = 0, trial = 0;
  std::vector<std::int32_t> ids;
  index_t first = 0;
};

/// Makes a document of random tokens of [1, vocabulary) that repeat after `distance` tokens. Its answers are the
/// repeated tokens 8 to 71 at most; nothing announces the first 8. The draw depends on seed, distance and trial.
probe copy_probe(index_t vocabulary, index_t distance, index_t trial, std::uint64_t seed);

/// Words of the records BEFORE name BETWEEN thing AFTER: a JSON file {"before", "between", "after", "names", "things"}.
struct record_words {
  std::string before, between, after;
  std::vector<std::string> names, things;
};
record_words read_record_words(const std::filesystem::path& path);

/// Makes a record, a drawn stretch of `text` with eight other records in its middle, and the record again up to its
/// thing, whose first token is the answer; `distance` tokens in all. `encode` turns words into ids. Throws `error` if
/// the distance is too short for the records or `text` too short for the distance.
probe lookup_probe(const record_words& words, const std::function<std::vector<std::int32_t>(std::string_view)>& encode,
                   std::span<const std::int32_t> text, index_t distance, index_t trial, std::uint64_t seed);

}  // namespace qkgeom
