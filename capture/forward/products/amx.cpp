// SPDX-License-Identifier: MIT
#include "capture/forward/products/amx.hpp"

#if defined(QKGEOM_HAS_AMX)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace qkgeom {

#if defined(QKGEOM_HAS_AMX)
namespace {

bool cpu_has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned bf16_products = 1u << 22, tiles = 1u << 24, bf16_conversions = 1u << 5;
  if (!(d & bf16_products) || !(d & tiles)) return false;
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & bf16_conversions)) return false;
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/// Linux saves a process' tiles (8 KB a thread) only if it asks for that.
bool system_saves_tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

bool amx_available() {
  static const bool available = cpu_has_amx() && system_saves_tiles();
  return available;
}
#else
bool amx_available() { return false; }
#endif

}  // namespace qkgeom
