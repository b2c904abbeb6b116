// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace qkgeom {

/// Hash map from pairs of 32-bit numbers to 32-bit numbers, open addressing in one array. The pair (2^32-1, 2^32-1) is
/// not a key.
class pair_map {
 public:
  static constexpr std::uint32_t absent = std::numeric_limits<std::uint32_t>::max();
  explicit pair_map(std::size_t expected = 0) { rehash(expected); }

  void set(std::uint32_t a, std::uint32_t b, std::uint32_t value);
  /// The pair's value, or `absent`.
  std::uint32_t find(std::uint32_t a, std::uint32_t b) const {
    const std::uint64_t key = key_of(a, b);
    for (std::size_t i = place(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].value;
      if (slots_[i].key == empty) return absent;
    }
  }

 private:
  struct slot {
    std::uint64_t key;
    std::uint32_t value;
  };
  static constexpr std::uint64_t empty = std::numeric_limits<std::uint64_t>::max();
  static std::uint64_t key_of(std::uint32_t a, std::uint32_t b) { return (std::uint64_t{a} << 32) | b; }
  std::size_t place(std::uint64_t key) const {
    key = (key ^ (key >> 29)) * 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>(key ^ (key >> 32)) & mask_;
  }
  void rehash(std::size_t expected);

  std::vector<slot> slots_;
  std::size_t mask_ = 0, used_ = 0;
};

/// The merges of a byte-pair encoding. One object is used by one thread at a time.
class bpe_merges {
 public:
  /// Adds the rule that `left` and `right` become `merged`. Rules rank in the order in which they are added; a pair
  /// added twice has its last rank. `as_the_last`: with the rank of the rule before it.
  void add(std::int32_t left, std::int32_t right, std::int32_t merged, bool as_the_last = false);

  /// Merges the pair of lowest rank, of equals the leftmost, until no rule applies. O(n) look-ups and O(n log r)
  /// comparisons for r different ranks.
  void apply(std::vector<std::int32_t>* symbols) const;

  /// Look-ups of pairs so far, a measure of the work.
  std::uint64_t lookups() const { return lookups_; }

 private:
  struct rule {
    std::int32_t left, right, merged;
  };
  /// Positions that wait for one rank. Nearly all come in ascending order; `late` is a heap of the others.
  struct bucket {
    std::vector<std::uint32_t> ascending, late;
    std::size_t taken = 0;
    std::uint32_t rank = 0;
  };
  class long_word;

  std::uint32_t rank_of(std::int32_t left, std::int32_t right) const {
    ++lookups_;
    return ranks_.find(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right));
  }
  /// What the pair becomes by a rule of this rank; -1: it has another rank, or none.
  std::int32_t merged(std::uint32_t rank, std::int32_t left, std::int32_t right) const;
  void apply_to_short(std::vector<std::int32_t>* symbols) const;

  mutable std::uint64_t lookups_ = 0;
  std::vector<rule> rules_;  // the first of each rank
  pair_map ranks_, shared_;  // rank of each pair; what the pairs become that are not the first of their rank
  mutable std::vector<std::uint32_t> bucket_of_rank_;  // scratch of `long_word`; all `absent` between words
};

}  // namespace qkgeom
