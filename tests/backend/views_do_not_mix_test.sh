#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Views of host and device memory cannot be mixed up: what would is refused by the compiler, for that reason.
set -euo pipefail
compile() {
  {
    cat <<'TEXT'
#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/plasticity/profile.hpp"
using namespace qkgeom;
using device_ints = vector_view<const std::int32_t, memory_space::device>;
using device_rows = matrix_view<const float, memory_space::device>;
void use(cpu_context& ctx, matrix_view<const float> x, vector_view<const std::int32_t> t, device_rows far, device_ints u,
         const query_model& model) {
TEXT
    printf '%s\n}\n' "$1"
  } >unit.cpp
  "${CXX:-c++}" -std=c++20 -fsyntax-only -DQKGEOM_PRECOMPILED "-I$QKGEOM_SOURCE/include" unit.cpp 2>errors.txt
}
refused() {
  if compile "$1"; then echo "compiled, but should not: $1"; exit 1; fi
  grep -q 'memory_space' errors.txt || { echo "refused for another reason: $1"; head -5 errors.txt; exit 1; }
}
compile 'plasticity_profile(ctx, model, head_view{x, t, t, x, t, t}); (void)far; (void)u;' || { cat errors.txt; exit 1; }
refused 'accumulate(ctx, head_view{far, u, u, far, u, u}, uniform_buckets{8}); (void)x; (void)t; (void)model;'
refused 'plasticity_profile(ctx, model, head_view{far, u, u, far, u, u}); (void)x; (void)t;'
refused 'head_view<float> mixed{x, t, t, far, t, t}; (void)mixed;'
refused 'matrix_view<const float> mine = far; (void)mine;'
echo "4 mixtures refused"
