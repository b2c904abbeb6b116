// SPDX-License-Identifier: MIT
#include "qkgeom/backend/detail/cpu/empirical_pairs.hpp"

#include "qkgeom/core/random.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

template <class F>
class observed_scores : public testing::Test {};
using score_types = testing::Types<float, double>;
TYPED_TEST_SUITE(observed_scores, score_types);

/// Expects the sum over the pairs of the first keys, for each number of them. A score is the product of query and key,
/// which have one coordinate.
template <class F>
void expect_sums(const std::vector<F>& queries, const std::vector<F>& all_keys) {
  const auto n = static_cast<index_t>(queries.size());
  const index_t width = cpu::padded<std::int16_t>(n);
  std::vector<F> q(width);
  std::copy(queries.begin(), queries.end(), q.begin());
  cpu::observed_scores<F> scores;
  double want = 0;
  for (index_t count = 1; count <= static_cast<index_t>(all_keys.size()); ++count) {
    std::vector<F> keys(all_keys.begin(), all_keys.begin() + count);
    for (index_t i = 0; i + 1 < count; ++i) {
      std::int64_t doubled = 0;
      for (const F x : queries) doubled += (x * keys.back() > x * keys[i]) + (x * keys.back() >= x * keys[i]);
      want += static_cast<double>(doubled * (2 * n - doubled));
    }
    keys.resize(count + cpu::block_rows);
    scores.set(q.data(), n, width, keys.data(), count, 1);
    EXPECT_EQ(scores.sum(), want) << n << " queries, " << count << " keys";
  }
}

TYPED_TEST(observed_scores, are_counted_as_they_compare) {
  using F = TypeParam;
  const random_stream stream{.seed = 5};
  for (const int n : {2, 7, 8, 31, 64, 100, 129, 300}) {
    std::vector<F> queries, keys;
    for (int i = 0; i < n; ++i) queries.push_back(static_cast<F>(stream.uniform(i) - 0.5));
    for (int i = 0; i < 40; ++i) keys.push_back(static_cast<F>(stream.uniform(1000 + i) - 0.5));
    expect_sums(queries, keys);
    keys[11] = keys[3];  // a tie
    keys[20] = F{1000};  // a sink: the others share few places
    queries[1] = F{0};   // all scores of a query are one
    expect_sums(queries, keys);
    for (F& k : keys) k = std::round(8 * k) / 8;  // many ties
    expect_sums(queries, keys);
  }
}

TYPED_TEST(observed_scores, whose_range_the_type_does_not_hold_are_counted) {
  using F = TypeParam;
  constexpr F largest = std::numeric_limits<F>::max(), least = std::numeric_limits<F>::denorm_min();
  std::vector<F> queries(70, F{1});
  queries[3] = F{-1};
  expect_sums(queries, {-largest, largest, F{0}, F{1}, largest, F{-3}});
  expect_sums(queries, {F{0}, least, F{2} * least, least, F{0}, F{3} * least});
}

// So many queries that a lane's 16 bits would not hold all wins.
TYPED_TEST(observed_scores, of_very_many_queries_are_counted) {
  using F = TypeParam;
  const std::vector<F> queries(40000 * cpu::simd_bytes / 2 + 3, F{1});
  expect_sums(queries, {F{0}, F{1}, F{2}, F{3}, F{4}, F{2}});
}

}  // namespace
