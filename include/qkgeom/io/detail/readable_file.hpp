// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/detail/descriptor.hpp"

namespace qkgeom::detail {

/// A file that is open for reading. Opening never waits: a folder, a device or a named pipe throws `error`. With
/// `shell_pipes` a pipe without a name is accepted, which a shell makes for /dev/stdin and <(...).
struct readable_file {
  readable_file(const std::filesystem::path& path, bool shell_pipes)
      : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd.get() < 0) fail("cannot open ", path.string(), ": ", std::strerror(errno));
    if (::fstat(fd.get(), &info) != 0) fail("cannot read ", path.string(), ": ", std::strerror(errno));
    if (S_ISREG(info.st_mode)) return;
    constexpr auto pipe_file_system = 0x50495045;  // PIPEFS_MAGIC: its pipes have no name
    struct statfs system {};
    const bool from_shell = shell_pipes && ::fstatfs(fd.get(), &system) == 0 && system.f_type == pipe_file_system;
    require(from_shell && ::fcntl(fd.get(), F_SETFL, O_RDONLY) == 0, "cannot read ", path.string(),
            ": it is not a file but ", S_ISDIR(info.st_mode) ? "a folder" : "a pipe or a device");
  }

  descriptor fd;
  struct stat info {};
};

}  // namespace qkgeom::detail
