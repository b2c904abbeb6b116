// SPDX-License-Identifier: MIT
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
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
  void add(index_t n = 1) {
    const std::lock_guard lock(mutex_);
    count_ += n;
    const auto now = clock::now();
    const auto wait = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
    if (now - start_ < std::chrono::seconds(2) || now - last_ < wait) return;
    if (!terminal_ && total_ > 0 && count_ >= total_ && shown_) return;  // `done` has the last line
    last_ = now;
    print(std::chrono::duration<double>(now - start_).count(), false);
  }

  /// Ends the work: a bar that was shown gets its last state and a new line.
  void done() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(done_, true) || !shown_) return;
    print(std::chrono::duration<double>(clock::now() - start_).count(), true);
  }

  /// The line for `count` units after `seconds`, without line ends: label, bar, share, count, rate, time left.
  static std::string line(const std::string& label, index_t count, index_t total, const std::string& unit,
                          double seconds) {
    const double rate = seconds > 0 ? static_cast<double>(count) / seconds : 0;
    std::string text = label + ' ';
    if (total > 0) {
      const double share = std::clamp(static_cast<double>(count) / static_cast<double>(total), 0.0, 1.0);
      const auto filled = static_cast<std::size_t>(share * bar_width);
      text += '[' + std::string(filled, '#') + std::string(bar_width - filled, '.') + "] ";
      text +=
          std::to_string(static_cast<int>(share * 100)) + " %  " + std::to_string(count) + '/' + std::to_string(total);
    } else {
      text += std::to_string(count);
    }
    text += ' ' + unit + "  " + short_number(rate) + ' ' + unit + "/s";
    if (total > count && rate > 0) text += "  " + duration(static_cast<double>(total - count) / rate) + " left";
    if (total > 0 && count >= total) text += "  " + duration(seconds);
    return text;
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t bar_width = 24;

  static std::string short_number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, x < 10 ? "%.2f" : "%.0f", x);
    return text;
  }
  static std::string duration(double seconds) {
    const auto s = static_cast<long>(std::min(seconds, 1e7) + 0.5);
    char text[48];
    if (s >= 3600)
      std::snprintf(text, sizeof text, "%ld h %02ld min", s / 3600, s / 60 % 60);
    else if (s >= 60)
      std::snprintf(text, sizeof text, "%ld min %02ld s", s / 60, s % 60);
    else
      std::snprintf(text, sizeof text, "%ld s", s);
    return text;
  }

  void print(double seconds, bool last) {
    shown_ = true;
    const std::string text = line(label_, count_, total_, unit_, seconds);
    if (terminal_)
      std::fprintf(stderr, "\r\033[K%s%s", text.c_str(), last ? "\n" : "");
    else
      std::fprintf(stderr, "%s\n", text.c_str());
    std::fflush(stderr);
  }

  std::string label_, unit_;
  index_t total_, count_ = 0;
  bool terminal_, shown_ = false, done_ = false;
  clock::time_point start_ = clock::now(), last_ = start_ - std::chrono::hours(1);
  std::mutex mutex_;
};

}  // namespace qkgeom
