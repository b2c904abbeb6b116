// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkgeom/core/random.hpp"
#include "qkgeom/plasticity/profile.hpp"

namespace qkgeom {

/// A pair of keys of one example and the query buckets that admit it: a run of the buckets that have a model.
struct admitted_pair {
  index_t row_i = 0, row_j = 0;        ///< rows of the layer's k, the earlier key first
  std::size_t example = 0;             ///< index among the groups of keys
  std::size_t first = 0, buckets = 0;  ///< the first of the run, and its length of at least 1
};

/// Pairs of a layer that at least one query bucket admits, each kept with the same probability.
struct admitted_pairs {
  std::vector<admitted_pair> pairs;
  double all = 0;  ///< how many there are
};

namespace detail {

/// Numbers of kept entries of a long list in which each is kept with the same chance, without visiting the others.
class kept_numbers {
 public:
  kept_numbers(double chance, const random_stream& stream)
      : log_missed_(chance < 1 ? std::log1p(-chance) : 0), stream_(stream) {
    step();
  }
  double next() const { return next_; }
  void advance() {
    ++next_;
    step();
  }

 private:
  void step() {
    if (log_missed_ < 0) next_ += std::floor(std::log1p(-stream_.uniform(count_++)) / log_missed_);
  }
  double log_missed_;
  random_stream stream_;
  std::uint64_t count_ = 0;
  double next_ = 0;
};

/// The keys of one group that can be the earlier key of a pair with key j, [from, j), and the run's first bucket.
struct partners {
  index_t from = 0;
  std::size_t first = 0;
};

/// Laws are those of the buckets that have a model, in order.
inline partners partners_of(const key_groups& keys, index_t begin, index_t j, const std::vector<score_law>& laws) {
  const auto t = keys.position[static_cast<std::size_t>(j)];
  const auto law = std::partition_point(laws.begin(), laws.end(), [&](const score_law& l) { return l.before <= t; });
  partners p{j, static_cast<std::size_t>(law - laws.begin())};
  if (law == laws.end()) return p;
  const auto first = keys.position.begin() + begin, last = keys.position.begin() + j;
  p.from = std::partition_point(first, last, [&](std::int32_t s) { return !(s > law->after); }) - keys.position.begin();
  return p;
}

}  // namespace detail

/// Draws about `most` of the pairs that the laws admit, or takes all if there are no more; the same for every head
/// whose buckets admit the same positions, for any number of threads.
inline admitted_pairs draw_admitted_pairs(const key_groups& keys, const std::vector<score_law>& laws, index_t most,
                                          std::uint64_t seed) {
  admitted_pairs result;
  const auto each = [&](auto&& visit) {
    for (index_t g = 0; g < keys.groups(); ++g) {
      const index_t begin = keys.offset[static_cast<std::size_t>(g)],
                    end = keys.offset[static_cast<std::size_t>(g) + 1];
      for (index_t j = begin + 1; j < end; ++j)
        if (const auto p = detail::partners_of(keys, begin, j, laws); p.from < j) visit(g, j, p);
    }
  };
  each([&](index_t, index_t j, const detail::partners& p) { result.all += static_cast<double>(j - p.from); });
  const double chance = result.all > 0 ? std::min(1.0, static_cast<double>(most) / result.all) : 1.0;
  detail::kept_numbers kept(chance, {seed, 0, 0, draw::decay_pair});
  double passed = 0;
  each([&](index_t g, index_t j, const detail::partners& p) {
    for (; kept.next() < passed + static_cast<double>(j - p.from); kept.advance()) {
      const index_t i = p.from + static_cast<index_t>(kept.next() - passed);
      const double t_i = keys.position[static_cast<std::size_t>(i)];
      const auto past = std::partition_point(laws.begin() + static_cast<std::ptrdiff_t>(p.first), laws.end(),
                                             [&](const score_law& l) { return t_i > l.after; });
      result.pairs.push_back({keys.row[static_cast<std::size_t>(i)], keys.row[static_cast<std::size_t>(j)],
                              static_cast<std::size_t>(g), p.first,
                              static_cast<std::size_t>(past - laws.begin()) - p.first});
    }
    passed += static_cast<double>(j - p.from);
  });
  return result;
}

}  // namespace qkgeom
