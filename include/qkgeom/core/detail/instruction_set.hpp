// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/instruction_set.hpp"

namespace qkgeom {

QKGEOM_INLINE instruction_set best_instruction_set() {
#if defined(__x86_64__)
#define QKGEOM_HAS(feature) static_cast<bool>(__builtin_cpu_supports(feature))
  if (!(QKGEOM_HAS("avx2") && QKGEOM_HAS("fma") && QKGEOM_HAS("bmi") && QKGEOM_HAS("bmi2"))) return instruction_set::v2;
  if (!(QKGEOM_HAS("avx512f") && QKGEOM_HAS("avx512bw") && QKGEOM_HAS("avx512cd") && QKGEOM_HAS("avx512dq") &&
        QKGEOM_HAS("avx512vl")))
    return instruction_set::v3;
  if (QKGEOM_HAS("avx512vnni") && QKGEOM_HAS("avx512vbmi2") && QKGEOM_HAS("avx512vpopcntdq"))
    return instruction_set::v4x;
  return instruction_set::v4;
#undef QKGEOM_HAS
#else
  return instruction_set::v2;
#endif
}

QKGEOM_INLINE instruction_set chosen_instruction_set(std::string_view asked, instruction_set best) {
  constexpr std::string_view names[] = {"v2", "v3", "v4", "v4x"};
  if (asked.empty()) return best;
  for (int i = 0; i < 4; ++i)
    if (names[i] == asked) {
      require(i <= static_cast<int>(best), "QKGEOM_CPU=", asked, ": this CPU has no more than ",
              names[static_cast<int>(best)]);
      return static_cast<instruction_set>(i);
    }
  fail("QKGEOM_CPU=", asked, ": expected v2, v3, v4 or v4x");
}

QKGEOM_INLINE instruction_set used_instruction_set() {
  static const instruction_set used = [] {
    const char* const asked = std::getenv("QKGEOM_CPU");
    return chosen_instruction_set(asked ? asked : "", best_instruction_set());
  }();
  return used;
}

}  // namespace qkgeom
