// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// The instruction sets of x86-64 for which a portable build holds kernels: SSE4.2; AVX2 and FMA; AVX-512 (F, BW, CD,
/// DQ, VL); AVX-512 with VNNI, VBMI2 and VPOPCNTDQ as well (Ice Lake, Zen 4 and newer).
enum class instruction_set { v2, v3, v4, v4x };

/// Returns the best instruction set that this CPU has.
QKGEOM_INLINE instruction_set best_instruction_set();

/// Returns `best`, or the lower instruction set that `asked` names ("v2", "v3", "v4" or "v4x"; "" asks for none).
/// Throws on another name and on a set that is not below `best`.
QKGEOM_INLINE instruction_set chosen_instruction_set(std::string_view asked, instruction_set best);

/// Returns the instruction set whose kernels a portable build runs: the best one, or what the environment variable
/// QKGEOM_CPU asks for, as `chosen_instruction_set` has it.
QKGEOM_INLINE instruction_set used_instruction_set();

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/core/detail/instruction_set.hpp"
#endif
