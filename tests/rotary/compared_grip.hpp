// SPDX-License-Identifier: MIT
// Grip on a context held against the CPU's.
#pragma once

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/rotary/grip.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom::test {

/// A layer of three query heads, the first and the last of one key head, with every token of its documents, of which
/// one is shorter and the last too short to count. Queries lean towards the key after the last occurrence of their
/// token. Small integers, if `whole`, whose scores are exact and often equal.
template <class T>
struct grip_rows {
  static constexpr index_t d = 12, tokens = 150, step = 40;
  std::vector<T> q{}, k{};
  std::vector<std::int32_t> position{}, document{}, token{};
  std::optional<index_t> window{};

  explicit grip_rows(bool whole, index_t documents = 5) {
    const random_stream draws{.seed = 9};
    std::uint64_t at = 0;
    const auto drawn = [&] { return whole ? static_cast<double>(draws.below(at++, 5)) - 2 : draws.normal(at++); };
    const auto rounded = [](double x) { return round_to<T>(static_cast<float>(x)); };
    for (index_t e = 0; e <= documents; ++e)
      for (index_t t = 0; t < (e == documents ? 30 : e == 1 ? 110 : tokens); ++t) {
        position.push_back(static_cast<std::int32_t>(t));
        document.push_back(static_cast<std::int32_t>(e));
        token.push_back(static_cast<std::int32_t>(t % step + t / (2 * step) * step));
        for (index_t c = 0; c < 2 * d; ++c) k.push_back(rounded(drawn()));
        for (index_t h = 0; h < 3; ++h)
          for (index_t c = 0; c < d; ++c) {
            const T* const needle = t < step ? nullptr : k.data() + k.size() - 2 * d * step + (h % 2) * d;
            q.push_back(rounded(drawn() + (needle ? static_cast<double>(needle[c]) : 0)));
          }
      }
  }
  layer_view<T> layer() const {
    const auto n = static_cast<index_t>(position.size());
    const vector_view<const std::int32_t> at{position.data(), n}, of{document.data(), n};
    return {packed_tensor(q.data(), n, 3, d), at, of, packed_tensor(k.data(), n, 2, d), at, of, {0, 1, 0}, window};
  }
};

/// Grip of a context that reads rows in host memory.
template <class Context>
auto grip_on(Context& on) {
  return [&on](const auto& rows, const auto& rope, const auto& tokens, const grip_options& options, bool counted) {
    return counted ? counted_grip(on, rows.layer(), rope, tokens, options)
                   : grip(on, rows.layer(), rope, tokens, options);
  };
}

/// Expects grip of a context, grip_of(rows, rope, tokens, options, counted), to be the CPU's to 1e-6: scores are f32,
/// and a document's numbers change that little with their rounding. Where two scores are nearer than that, a key passes
/// a query's needle on one side alone, and the value moves by at most 1 / cases; one value in twenty may. Scores of
/// whole numbers are exact, so that none does.
template <class T, class Grip>
void expect_grip_of_cpu(const grip_rows<T>& rows, const std::optional<captured_rope>& rope, const grip_options& options,
                        bool exact, const Grip& grip_of) {
  cpu_context cpu{{.threads = 2}};
  const vector_view<const std::int32_t> tokens{rows.token.data(), static_cast<index_t>(rows.token.size())};
  for (const bool counted : {false, true}) {
    const std::vector<head_grip> want = grip_on(cpu)(rows, rope, tokens, options, counted),
                                 found = grip_of(rows, rope, tokens, options, counted);
    ASSERT_EQ(found.size(), want.size());
    index_t values = 0, off = 0;
    const auto near = [&](double x, double y, index_t cases) {
      EXPECT_EQ(std::isnan(x), std::isnan(y));
      if (std::isnan(y)) return;
      ++values;
      off += std::abs(x - y) > 1e-6;
      EXPECT_NEAR(x, y, exact ? 1e-6 : 1.0 / static_cast<double>(cases));
    };
    for (std::size_t h = 0; h < want.size(); ++h) {
      ASSERT_EQ(found[h].grip.size(), want[h].grip.size());
      ASSERT_EQ(found[h].kept.size(), want[h].kept.size());
      for (std::size_t i = 0; i < want[h].grip.size(); ++i) {
        const auto &x = found[h].grip[i], &y = want[h].grip[i];
        EXPECT_EQ(x.cases, y.cases);
        for (const auto member : {&grip_value::with_tail, &grip_value::least, &grip_value::most, &grip_value::chance})
          near(x.*member, y.*member, y.cases);
        near(x.value.value, y.value.value, y.cases);
      }
      for (std::size_t b = 0; b < want[h].kept.size(); ++b) {
        EXPECT_EQ(found[h].kept[b].cases, want[h].kept[b].cases);
        near(found[h].kept[b].value.value, want[h].kept[b].value.value, want[h].kept[b].cases);
      }
    }
    EXPECT_GT(values, 50);
    EXPECT_LE(off, values / 20);
  }
}

/// Does so for every option of grip.
template <class Grip>
void expect_grip_of_cpu(const Grip& grip_of) {
  const captured_rope half{"half", 8, 1.2, {1, 0.1, 0.01, 0}}, inside{"interleaved", 6, 1, {0.5, 0.03, 0.002}, 4};
  const grip_options usual{.near = 40, .nearest = 3, .lengths = {40, 60, 100}, .queries = 20};
  auto options = usual;
  options.distances = {4, 16, 64, 1000};
  options.reach_top = 12;
  for (const auto& rope : {std::optional<captured_rope>(), std::optional(half), std::optional(inside)}) {
    expect_grip_of_cpu(grip_rows<float>(false), rope, options, false, grip_of);
    expect_grip_of_cpu(grip_rows<bf16>(false), rope, usual, false, grip_of);
  }
  auto windowed = grip_rows<float>(true);
  expect_grip_of_cpu(windowed, {}, options, true, grip_of);
  windowed.window = 80;
  options.first_compete = true;
  expect_grip_of_cpu(windowed, {}, options, true, grip_of);
  windowed.window = 20;
  expect_grip_of_cpu(windowed, inside, options, false, grip_of);
  expect_grip_of_cpu(grip_rows<double>(false), half, options, false, grip_of);
}

}  // namespace qkgeom::test
