// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// Replaces this program by the one beside it whose name ends in "-cuda", with the same arguments `argv`: CUDA's
/// libraries take 200 MB of every process that is linked to them. Throws `error` if it is not there or cannot be
/// started.
[[noreturn]] inline void become_cuda_program(char** argv) {
  std::error_code unread;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", unread);
  require(!unread, "--device cuda: cannot read /proc/self/exe: ", unread.message());
  const auto other = self.string() + "-cuda";
  ::execv(other.c_str(), argv);
  const std::error_code unstarted(errno, std::generic_category());
  fail("--device cuda needs ", other, ", which a whole build makes where CUDA 12.8 or newer is: ", unstarted.message());
}

}  // namespace qkgeom
