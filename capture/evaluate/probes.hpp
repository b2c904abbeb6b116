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

/// A document that asks a model for something it has seen `distance` tokens before. The answers are the tokens at
/// [first, ids.size()), each to be predicted from those before it.
struct probe {
  std::string kind;  ///< "copy" or "lookup"
  index_t distance = 0, trial = 0;
  std::vector<std::int32_t> ids;
  index_t first = 0;
};

/// Random tokens of [1, vocabulary) that begin again after `distance` tokens: 64 of the repeated ones are asked for, or
/// as many as there are, but not the first 8, which nothing announces. The draw depends on seed, distance and trial.
probe copy_probe(index_t vocabulary, index_t distance, index_t trial, std::uint64_t seed);

/// Sentences BEFORE name BETWEEN thing AFTER, from a JSON file {"before", "between", "after", "names", "things"}.
struct record_words {
  std::string before, between, after;
  std::vector<std::string> names, things;
};
record_words read_record_words(const std::filesystem::path& path);

/// A record, `text` with eight other records in its middle, and the record again as far as its thing, whose first token
/// is asked for: `distance` tokens in all. `encode` turns words into ids; `text` is as long as needed and starts where
/// the draw says. Throws `error` if the distance is too short for the records.
probe lookup_probe(const record_words& words, const std::function<std::vector<std::int32_t>(std::string_view)>& encode,
                   std::span<const std::int32_t> text, index_t distance, index_t trial, std::uint64_t seed);

}  // namespace qkgeom
