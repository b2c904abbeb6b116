// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <filesystem>

#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// Replaces this program by the one beside it whose name ends in "-cuda", with the same arguments `argv`: CUDA's
/// libraries take 200 MB of every process that is linked to them. Returns only by throwing `error`, where there is
/// none.
[[noreturn]] inline void become_cuda_program(char** argv) {
  const auto other = std::filesystem::read_symlink("/proc/self/exe").string() + "-cuda";
  ::execv(other.c_str(), argv);
  fail("--device cuda needs ", other, ", which a whole build makes where CUDA 12.8 or newer is");
}

}  // namespace qkgeom
