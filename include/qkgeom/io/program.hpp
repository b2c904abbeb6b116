// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Runs a program's `body`. Returns its exit status: 0, or 2 after one sentence on standard error that begins with the
/// program's `name`, if the body throws, memory runs out, or standard output cannot be written. Meanwhile a mapped file
/// that becomes shorter ends the process in the same way (`report_lost_files`).
int run_program(const std::string& name, const std::function<void()>& body);

/// Installs a handler of SIGBUS, for programs: a mapped file that can no longer be read (it was truncated, or its disk
/// fails) ends the process with status 2 and a sentence that names the file. The library itself installs no handler.
void report_lost_files(const std::string& name);

/// Makes a folder and missing folders above it. The destructor removes the ones it made that are still empty, so that a
/// run that fails leaves none. Throws `error` if the folder cannot be made.
class made_folder {
 public:
  explicit made_folder(const std::filesystem::path& path);
  made_folder(const made_folder&) = delete;
  made_folder& operator=(const made_folder&) = delete;
  ~made_folder();

 private:
  std::vector<std::filesystem::path> made_;  // innermost last
};

/// Progress of long work on standard error: nothing in the first two seconds, then on a terminal a bar that is redrawn
/// in place, elsewhere a line every ten seconds. `add` may be called from many threads.
class progress {
 public:
  /// Starts the progress of `total` units (0: unknown); `unit` is a plural, e.g. "tokens".
  progress(std::string label, index_t total, std::string unit)
      : label_(std::move(label)), unit_(std::move(unit)), total_(total), terminal_(::isatty(STDERR_FILENO) == 1) {}
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress() { done(); }

  /// Counts `n` more units.
  void add(index_t n = 1);

  /// Ends the work: a bar on screen gets its last state and a new line.
  void done();

  /// Returns the line for `count` units after `seconds`, without line ends: label, bar, share, count, rate, time left.
  static std::string line(const std::string& label, index_t count, index_t total, const std::string& unit,
                          double seconds);

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t bar_width = 24;

  static std::string short_number(double x);
  static std::string duration(double seconds);

  void print(double seconds, bool last);

  std::string label_, unit_;
  index_t total_, count_ = 0;
  bool terminal_, shown_ = false, done_ = false;
  clock::time_point start_ = clock::now(), last_ = start_ - std::chrono::hours(1);
  std::mutex mutex_;
};

/// Replaces this program by its neighbour with "-cuda" after its name, with the same arguments `argv`: CUDA's libraries
/// take 200 MB of every process that is linked to them. Throws `error` if that program is missing or cannot be started.
[[noreturn]] void become_cuda_program(char** argv);

/// Throws `error` if a launcher of MPI started more processes than `known`, by the variables that it sets: processes
/// that do not know one another would write the same files. A program that shares nothing out knows itself alone.
void require_no_other_process(int known = 1);

}  // namespace qkgeom
