// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <span>

/// Unicode as the `tokenizers` library has it (make_unicode_tables.py). Rows ascend.
namespace qkgeom::detail {

struct point_range {
  char32_t first, last;
};
struct combining_range {
  char32_t first, last;
  std::uint32_t order;  ///< sorts like the canonical combining class
};
/// `whole` is canonically `first` followed by `second`, or by nothing if `second` is 0.
struct canonical_pair {
  char32_t whole, first, second;
};
/// Adding `difference` to first, first + step, ..., last gives their lower case.
struct case_range {
  char32_t first, last;
  std::uint32_t step;
  std::int32_t difference;
};

extern const std::span<const combining_range> combining_ranges;
extern const std::span<const canonical_pair> composed_pairs;    ///< normal form C composes them
extern const std::span<const canonical_pair> decomposed_pairs;  ///< normal form C leaves them apart
extern const std::span<const case_range> lower_ranges;          ///< without U+0130
extern const std::span<const point_range> numeral_ranges;       ///< where the Digits pre-tokenizer cuts
extern const std::span<const point_range> word_ranges;          ///< not allowed beside a single-word token

}  // namespace qkgeom::detail
