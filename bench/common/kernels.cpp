// SPDX-License-Identifier: MIT
// Part of every bench: which kernels it was compiled with stands in its header and its JSON.
#include <benchmark/benchmark.h>

#include <cstdio>

namespace {

#if defined(__AVX512F__)
constexpr const char* kernels = "AVX-512";
#elif defined(__AVX2__)
constexpr const char* kernels = "AVX2";
#else
constexpr const char* kernels = "portable";
#endif

[[maybe_unused]] const bool named = [] {
  benchmark::AddCustomContext("kernels", kernels);
#if defined(__x86_64__) && !defined(__AVX2__)
  std::fputs(
      "note: compiled for any x86-64 CPU (portable kernels), while the GEMM beside them uses all that this one has: "
      "shares of GEMM mislead. The preset native compiles for this CPU.\n",
      stderr);
#endif
  return true;
}();

}  // namespace
