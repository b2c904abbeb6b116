// SPDX-License-Identifier: MIT
#include "qkgeom/core/scalar.hpp"
#include "tests/common/testing.hpp"

namespace {

using namespace qkgeom;

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

}  // namespace
