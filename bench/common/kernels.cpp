// SPDX-License-Identifier: MIT
// Part of every bench: the kernels that run stand in its header and its JSON.
#include <benchmark/benchmark.h>

#include "qkgeom/backend/cpu_context.hpp"

namespace {

[[maybe_unused]] const bool named = [] {
  benchmark::AddCustomContext("kernels", qkgeom::cpu_context::kernels());
  return true;
}();

}  // namespace
