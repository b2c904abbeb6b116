// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Runs a program's `body`. Returns its exit status: 0, or 2 after one sentence on standard error that begins with the
/// program's `name`, if the body throws, if memory runs out, or if standard output cannot be written. While it runs, a
/// mapped file that becomes shorter ends the process in the same way (`report_lost_files`).
QKGEOM_INLINE int run_program(const std::string& name, const std::function<void()>& body);

/// From now on a page of a mapped file that can no longer be read (SIGBUS: the file was cut short, or its disk fails)
/// ends the process with a sentence that names the file, and status 2. For programs: the library installs no handler.
QKGEOM_INLINE void report_lost_files(const std::string& name);

/// A folder that is made if it is not there, with those above it. At the end, those that this object made and that are
/// empty are removed again, so that a run that fails leaves none. Throws `error` if it cannot be made.
class made_folder {
 public:
  explicit made_folder(const std::filesystem::path& path);
  made_folder(const made_folder&) = delete;
  made_folder& operator=(const made_folder&) = delete;
  ~made_folder();

 private:
  std::vector<std::filesystem::path> made_;  // innermost last
};

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/io/detail/program.hpp"
#endif
