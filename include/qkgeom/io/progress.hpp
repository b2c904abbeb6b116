// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <chrono>
#include <mutex>
#include <string>
#include <utility>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Progress of long work on standard error: nothing in the first two seconds, then on a terminal a bar that is redrawn
/// in place, elsewhere a line every ten seconds. `add` may be called from many threads.
class progress {
 public:
  /// `total` in units; 0 if unknown. `unit` is a plural, e.g. "tokens".
  progress(std::string label, index_t total, std::string unit)
      : label_(std::move(label)), unit_(std::move(unit)), total_(total), terminal_(::isatty(STDERR_FILENO) == 1) {}
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress() { done(); }

  /// Counts `n` more units.
  void add(index_t n = 1);

  /// Ends the work: a bar that was shown gets its last state and a new line.
  void done();

  /// The line for `count` units after `seconds`, without line ends: label, bar, share, count, rate, time left.
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

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/io/detail/progress.hpp"
#endif
