// SPDX-License-Identifier: MIT
// Random bits, halves, buckets, shapes of layers, sets of instructions.
#include "qkgeom/core/buckets.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/instruction_set.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/core/scalar.hpp"
#include "tests/common/testing.hpp"

#include <Random123/philox.h>

namespace {

using namespace qkgeom;

TEST(philox, equals_random123) {
  r123::Philox4x32 oracle;
  std::uint32_t x = 1;
  const auto next = [&] { return x = x * 1664525u + 1013904223u; };
  for (int i = 0; i < 1000; ++i) {
    const std::array<std::uint32_t, 4> c{next(), next(), next(), next()};
    const std::array<std::uint32_t, 2> key{next(), next()};
    const auto want =
        oracle(r123::Philox4x32::ctr_type{{c[0], c[1], c[2], c[3]}}, r123::Philox4x32::key_type{{key[0], key[1]}});
    const auto got = (qkgeom::philox4x32)(c, key);  // Random123 has a macro of this name
    for (std::size_t w = 0; w < 4; ++w) ASSERT_EQ(got[w], want[w]);
  }
}

TEST(random_stream, streams_differ_and_repeat) {
  std::set<std::uint32_t> seen;
  for (std::uint64_t seed : {0ull, 1ull, 1ull << 40})
    for (std::uint32_t document : {0u, 1u})
      for (std::uint32_t layer : {0u, 1u})
        for (draw use : {draw::query_token, draw::key_token, draw::head}) {
          const random_stream s{seed, document, layer, use};
          EXPECT_EQ(s.bits(7), (random_stream{seed, document, layer, use}).bits(7));
          seen.insert(s.bits(7)[0]);
        }
  EXPECT_EQ(seen.size(), 36u);
}

TEST(random_stream, uniform_has_the_moments_of_the_uniform_distribution) {
  const random_stream s{.seed = 5};
  const int n = 200000;
  double sum = 0, square = 0, lowest = 1, highest = 0;
  for (int i = 0; i < n; ++i) {
    const double u = s.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    square += u * u;
    lowest = std::min(lowest, u);
    highest = std::max(highest, u);
  }
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(square / n, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / n));
  EXPECT_LT(lowest, 1e-3);
  EXPECT_GT(highest, 1 - 1e-3);
}

TEST(random_stream, below_is_even) {
  const random_stream s{.seed = 9};
  std::array<int, 7> count{};
  for (std::uint64_t i = 0; i < 70000; ++i) ++count[s.below(i, 7)];
  for (const int c : count) EXPECT_NEAR(c, 10000, 5 * std::sqrt(10000 * 6.0 / 7));
}

TEST(scalar, bf16_keeps_what_it_holds_and_rounds_to_even) {
  for (std::uint32_t b = 0; b < 65536; ++b) {
    const bf16 x{static_cast<std::uint16_t>(b)};
    const float f = x;
    if (std::isnan(f))
      EXPECT_TRUE(std::isnan(static_cast<float>(bf16::round(f))));
    else
      ASSERT_EQ(bf16::round(f), x);
  }
  EXPECT_EQ(static_cast<float>(bf16::round(1.0f + 0x1p-8f)), 1.0f);                // tie to even
  EXPECT_EQ(static_cast<float>(bf16::round(1.0f + 3 * 0x1p-8f)), 1.0f + 0x1p-6f);  // tie to even, upwards
  EXPECT_TRUE(std::isinf(static_cast<float>(bf16::round(std::numeric_limits<float>::max()))));
}

TEST(scalar, f16_equals_the_compiler_s_half) {
#if defined(__FLT16_MAX__)
#if defined(__aarch64__)  // where g++ 12 lacks the other name in C++
  using half_type = __fp16;
#else
  using half_type = _Float16;
#endif
  const auto half = [](std::uint16_t bits) {
    half_type h;
    std::memcpy(&h, &bits, 2);
    return h;
  };
  for (std::uint32_t b = 0; b < 65536; ++b) {
    const auto bits = static_cast<std::uint16_t>(b);
    const float want = static_cast<float>(half(bits)), got = f16{bits};
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got));
      continue;
    }
    ASSERT_EQ(got, want);
    for (const float x : {want, std::nextafter(want, 1e9f), want * 1.0003f, want * 0.99951171875f}) {
      const half_type h = static_cast<half_type>(x);
      std::uint16_t expected;
      std::memcpy(&expected, &h, 2);
      ASSERT_EQ(f16::round(x).bits, expected) << x;
    }
  }
#else
  GTEST_SKIP() << "the compiler has no half type to compare with";
#endif
}

TEST(buckets, uniform_and_its_last_edge) {
  const auto e = uniform_buckets{10}.edges(25);
  EXPECT_THAT(e.edges(), testing::ElementsAre(0, 10, 20, 25));
  EXPECT_EQ(e(0), 0);
  EXPECT_EQ(e(9), 0);
  EXPECT_EQ(e(10), 1);
  EXPECT_EQ(e(24), 2);
  EXPECT_EQ(e(25), -1);
  EXPECT_EQ(e(-1), -1);
  EXPECT_DOUBLE_EQ(e.middle(2), 22.5);
  EXPECT_EQ(uniform_buckets{10}.edges(0).count(), 0);
}

TEST(buckets, log2_follows_the_formula) {
  for (const index_t minimum : {1, 4, 16}) {
    const auto e = log2_buckets{minimum}.edges(1000);
    const auto label = [&](index_t t) {
      return std::max(std::floor(std::log2(static_cast<double>(t + 1))), std::log2(static_cast<double>(minimum)));
    };
    for (index_t t = 0; t < 1000; ++t) ASSERT_EQ(static_cast<double>(e(t)), label(t) - label(0)) << t;
  }
}

TEST(buckets, uneven_edges_find_every_position) {
  const bucket_edges e({3, 4, 9, 100});
  for (index_t t = 0; t < 120; ++t) {
    index_t want = -1;
    for (index_t b = 0; b < e.count(); ++b)
      if (t >= e.start(b) && t < e.end(b)) want = b;
    ASSERT_EQ(e(t), want) << t;
  }
}

TEST(buckets, bad_input_is_named) {
  EXPECT_THROW(uniform_buckets{0}.edges(5), error);
  EXPECT_THROW(bucket_edges({3, 3}), error);
  EXPECT_THROW(bucket_edges({3}), error);
  EXPECT_THROW(log2_buckets{0}.edges(5), error);
}

TEST(layer_view, wrong_shapes_are_named) {
  std::vector<float> x(24);
  std::vector<std::int32_t> t(3);
  const vector_view<const std::int32_t> rows{t.data(), 3}, fewer{t.data(), 2};
  const matrix_view<const float> m{x.data(), 3, 4, 4}, wider{x.data(), 3, 5, 5};
  const auto check = [](const head_view<float>& h) { check_shapes(as_layer(h)); };
  EXPECT_NO_THROW(check({m, rows, rows, m, rows, rows}));
  EXPECT_QKGEOM_ERROR("q_position has 2 entries for 3 rows", check({m, fewer, rows, m, rows, rows}));
  EXPECT_QKGEOM_ERROR("k_example", check({m, rows, rows, m, rows, fewer}));
  EXPECT_QKGEOM_ERROR("same head size", check({m, rows, rows, wider, rows, rows}));
  EXPECT_QKGEOM_ERROR("window", check({m, rows, rows, m, rows, rows, 0}));
  const matrix_view<const float> without_stride{x.data(), 3, 4}, upwards{x.data() + 8, 3, 4, -4}, one{x.data(), 1, 4};
  EXPECT_QKGEOM_ERROR("q: rows of 4 elements cannot begin 0 apart (row_stride)",
                      check({without_stride, rows, rows, m, rows, rows}));
  EXPECT_QKGEOM_ERROR("k: rows", check({m, rows, rows, without_stride, rows, rows}));
  EXPECT_NO_THROW(check({upwards, rows, rows, m, rows, rows}));
  EXPECT_NO_THROW(check({m, rows, rows, one, {t.data(), 1}, {t.data(), 1}}));
}

TEST(instruction_set, the_best_one_runs_unless_a_lower_one_is_asked_for) {
  EXPECT_EQ(chosen_instruction_set("", instruction_set::v4x), instruction_set::v4x);
  EXPECT_EQ(chosen_instruction_set("", instruction_set::v2), instruction_set::v2);
  EXPECT_EQ(chosen_instruction_set("v3", instruction_set::v4x), instruction_set::v3);
  EXPECT_EQ(chosen_instruction_set("v4", instruction_set::v4), instruction_set::v4);
}

TEST(instruction_set, a_set_that_the_cpu_lacks_and_an_unknown_name_are_refused) {
  EXPECT_QKGEOM_ERROR("QKGEOM_CPU=v4: this CPU has no more than v3", chosen_instruction_set("v4", instruction_set::v3));
  EXPECT_QKGEOM_ERROR("QKGEOM_CPU=avx2: expected v2, v3, v4 or v4x",
                      chosen_instruction_set("avx2", instruction_set::v3));
}

}  // namespace
