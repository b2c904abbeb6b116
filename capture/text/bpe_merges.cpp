// SPDX-License-Identifier: MIT
#include "capture/text/bpe_merges.hpp"

#include <algorithm>
#include <functional>
#include <queue>

namespace qkgeom {
namespace {

constexpr std::size_t short_word = 40;
constexpr std::uint32_t none = pair_map::absent;

}  // namespace

void pair_map::rehash(std::size_t expected) {
  std::size_t size = 16;
  while (size < 2 * expected) size *= 2;
  std::vector<slot> old(size, slot{empty, 0});
  old.swap(slots_);
  mask_ = size - 1;
  for (const slot& s : old) {
    if (s.key == empty) continue;
    std::size_t i = place(s.key);
    while (slots_[i].key != empty) i = (i + 1) & mask_;
    slots_[i] = s;
  }
}

void pair_map::set(std::uint32_t a, std::uint32_t b, std::uint32_t value) {
  const std::uint64_t key = key_of(a, b);
  std::size_t i = place(key);
  while (slots_[i].key != empty && slots_[i].key != key) i = (i + 1) & mask_;
  if (slots_[i].key == empty) ++used_;
  slots_[i] = {key, value};
  if (2 * used_ > slots_.size()) rehash(2 * used_);
}

void bpe_merges::add(std::int32_t left, std::int32_t right, std::int32_t merged, bool as_the_last) {
  const auto a = static_cast<std::uint32_t>(left), b = static_cast<std::uint32_t>(right);
  if (as_the_last && !rules_.empty()) {
    ranks_.set(a, b, static_cast<std::uint32_t>(rules_.size() - 1));
    shared_.set(a, b, static_cast<std::uint32_t>(merged));
    return;
  }
  ranks_.set(a, b, static_cast<std::uint32_t>(rules_.size()));
  rules_.push_back({left, right, merged});
}

std::int32_t bpe_merges::merged(std::uint32_t rank, std::int32_t left, std::int32_t right) const {
  const rule& r = rules_[rank];
  if (r.left == left && r.right == right) return r.merged;
  const auto a = static_cast<std::uint32_t>(left), b = static_cast<std::uint32_t>(right);
  return ranks_.find(a, b) == rank ? static_cast<std::int32_t>(shared_.find(a, b)) : -1;
}

void bpe_merges::apply_to_short(std::vector<std::int32_t>* symbols) const {
  std::int32_t* s = symbols->data();
  std::size_t n = symbols->size();
  std::uint32_t ranks[short_word];  // of each symbol with the next
  for (std::size_t i = 0; i + 1 < n; ++i) ranks[i] = rank_of(s[i], s[i + 1]);
  while (n > 1) {
    const auto best = static_cast<std::size_t>(std::min_element(ranks, ranks + n - 1) - ranks);
    if (ranks[best] == none) break;
    s[best] = merged(ranks[best], s[best], s[best + 1]);
    std::copy(s + best + 2, s + n, s + best + 1);
    if (best + 2 < n) std::copy(ranks + best + 2, ranks + n - 1, ranks + best + 1);
    --n;
    if (best > 0) ranks[best - 1] = rank_of(s[best - 1], s[best]);
    if (best + 1 < n) ranks[best] = rank_of(s[best], s[best + 1]);
  }
  symbols->resize(n);
}

/// The symbols as a linked list, and by rank the positions where a merge may apply. A position whose merge has become
/// impossible stays in its bucket; its symbols give it away when its turn comes.
class bpe_merges::long_word {
 public:
  long_word(const bpe_merges& merges, std::vector<std::int32_t>* symbols)
      : merges_(merges), symbols_(*symbols), previous_(symbols->size()), next_(symbols->size()) {
    const auto n = static_cast<std::uint32_t>(symbols_.size());
    for (std::uint32_t i = 0; i < n; ++i) {
      previous_[i] = i == 0 ? none : i - 1;
      next_[i] = i + 1 == n ? none : i + 1;
    }
    merges_.bucket_of_rank_.resize(merges_.rules_.size(), none);
    for (std::uint32_t i = 0; i < n; ++i) look(i);
  }

  void run() {
    while (!ranks_.empty()) {
      const std::uint32_t rank = ranks_.top();
      const std::uint32_t slot = merges_.bucket_of_rank_[rank];
      bucket& b = buckets_[slot];
      if (b.taken == b.ascending.size() && b.late.empty()) {
        release(slot);
        continue;
      }
      merge_at(lowest(&b), rank);
    }
    std::size_t kept = 0;
    for (std::uint32_t i = 0; i != none; i = next_[i]) symbols_[kept++] = symbols_[i];
    symbols_.resize(kept);
  }

 private:
  void look(std::uint32_t position) {
    if (position == none || next_[position] == none) return;
    const std::uint32_t rank = merges_.rank_of(symbols_[position], symbols_[next_[position]]);
    if (rank == none) return;
    std::uint32_t& slot = merges_.bucket_of_rank_[rank];
    if (slot == none) {
      if (free_.empty()) {
        free_.push_back(static_cast<std::uint32_t>(buckets_.size()));
        buckets_.emplace_back();
      }
      slot = free_.back();
      free_.pop_back();
      buckets_[slot].rank = rank;
      ranks_.push(rank);
    }
    bucket& b = buckets_[slot];
    if (b.ascending.empty() || b.ascending.back() < position) {
      b.ascending.push_back(position);
    } else {
      b.late.push_back(position);
      std::push_heap(b.late.begin(), b.late.end(), std::greater<>{});
    }
  }

  static std::uint32_t lowest(bucket* b) {
    if (b->late.empty() || (b->taken < b->ascending.size() && b->ascending[b->taken] < b->late.front()))
      return b->ascending[b->taken++];
    std::pop_heap(b->late.begin(), b->late.end(), std::greater<>{});
    const std::uint32_t position = b->late.back();
    b->late.pop_back();
    return position;
  }

  void release(std::uint32_t slot) {
    bucket& b = buckets_[slot];
    merges_.bucket_of_rank_[b.rank] = none;
    b.ascending.clear();
    b.taken = 0;
    free_.push_back(slot);
    ranks_.pop();
  }

  void merge_at(std::uint32_t position, std::uint32_t rank) {
    const std::uint32_t right = next_[position];
    if (symbols_[position] < 0 || right == none) return;
    const std::int32_t merged = merges_.merged(rank, symbols_[position], symbols_[right]);
    if (merged < 0) return;
    symbols_[position] = merged;
    symbols_[right] = -1;
    next_[position] = next_[right];
    if (next_[position] != none) previous_[next_[position]] = position;
    look(previous_[position]);
    look(position);
  }

  const bpe_merges& merges_;
  std::vector<std::int32_t>& symbols_;
  std::vector<std::uint32_t> previous_, next_, free_;
  std::vector<bucket> buckets_;
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ranks_;
};

void bpe_merges::apply(std::vector<std::int32_t>* symbols) const {
  if (symbols->size() <= short_word) return apply_to_short(symbols);
  long_word(*this, symbols).run();
}

}  // namespace qkgeom
