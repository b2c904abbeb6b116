// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstdint>
#include <span>

/// What the `tokenizers` library knows of Unicode, found by make_unicode_tables.py. Rows are in ascending order.
namespace qkgeom::detail {

struct point_range {
  char32_t first, last;
};
struct combining_range {
  char32_t first, last;
  std::uint32_t order;  ///< orders as the canonical combining class does
};
/// `whole` is canonically `first` followed by `second`, or by nothing if `second` is 0.
struct canonical_pair {
  char32_t whole, first, second;
};
/// The lower case of first, first + step, ..., last is `difference` above.
struct case_range {
  char32_t first, last;
  std::uint32_t step;
  std::int32_t difference;
};

extern const std::span<const combining_range> combining_ranges;
extern const std::span<const canonical_pair> composed_pairs;    ///< those that normal form C puts together
extern const std::span<const canonical_pair> decomposed_pairs;  ///< those that stay apart
extern const std::span<const case_range> lower_ranges;          ///< without U+0130
extern const std::span<const point_range> numeral_ranges;       ///< what the Digits pre-tokenizer cuts at
extern const std::span<const point_range> word_ranges;          ///< what may not stand beside a single-word token

}  // namespace qkgeom::detail
