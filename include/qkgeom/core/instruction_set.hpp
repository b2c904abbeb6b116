// SPDX-License-Identifier: MIT
#pragma once

#include <cstdlib>
#include <string_view>

#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// The instruction sets of x86-64 for which a portable build holds kernels: SSE4.2; AVX2 and FMA; AVX-512 (F, BW, CD,
/// DQ, VL); AVX-512 with VNNI, VBMI2 and VPOPCNTDQ as well (Ice Lake, Zen 4 and newer).
enum class instruction_set { v2, v3, v4, v4x };

/// Returns the best instruction set that this CPU has.
inline instruction_set best_instruction_set() {
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

/// Returns `best`, or the lower instruction set that `asked` names ("v2", "v3", "v4" or "v4x"; "" asks for none).
/// Throws on another name and on a set that is not below `best`.
inline instruction_set chosen_instruction_set(std::string_view asked, instruction_set best) {
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

/// Returns the instruction set whose kernels a portable build runs: the best one, or what the environment variable
/// QKGEOM_CPU asks for, as `chosen_instruction_set` has it.
inline instruction_set used_instruction_set() {
  static const instruction_set used = [] {
    const char* const asked = std::getenv("QKGEOM_CPU");
    return chosen_instruction_set(asked ? asked : "", best_instruction_set());
  }();
  return used;
}

}  // namespace qkgeom
