// SPDX-License-Identifier: MIT
#include "capture/forward/products/tiles.hpp"

#include "qkgeom/core/instruction_set.hpp"

#if defined(QKGEOM_HAS_TILES)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace qkgeom {

#if defined(QKGEOM_HAS_TILES)
namespace {

tile_unit unit_of_cpu() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return tile_unit::none;
  constexpr unsigned amx_products = 1u << 22, tiles = 1u << 24, bf16_products = 1u << 5;
  const bool amx = (d & amx_products) && (d & tiles);
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & bf16_products)) return tile_unit::none;
  if (used_instruction_set() < instruction_set::v4) return tile_unit::none;
  return amx ? tile_unit::amx : tile_unit::avx512;
}

/// Asks Linux to save the process' tiles (8 KB a thread), which it does only on request.
bool system_saves_tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

tile_unit best_tile_unit() {
  static const tile_unit best = [] {
    const tile_unit unit = unit_of_cpu();
    return unit == tile_unit::amx && !system_saves_tiles() ? tile_unit::avx512 : unit;
  }();
  return best;
}
#else
tile_unit best_tile_unit() { return tile_unit::none; }
#endif

}  // namespace qkgeom
