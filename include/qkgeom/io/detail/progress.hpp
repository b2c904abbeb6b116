// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdio>

#include "qkgeom/io/progress.hpp"

namespace qkgeom {

QKGEOM_INLINE void progress::add(index_t n) {
  const std::lock_guard lock(mutex_);
  count_ += n;
  const auto now = clock::now();
  const auto wait = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
  if (now - start_ < std::chrono::seconds(2) || now - last_ < wait) return;
  if (!terminal_ && total_ > 0 && count_ >= total_ && shown_) return;  // `done` has the last line
  last_ = now;
  print(std::chrono::duration<double>(now - start_).count(), false);
}

QKGEOM_INLINE void progress::done() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(done_, true) || !shown_) return;
  print(std::chrono::duration<double>(clock::now() - start_).count(), true);
}

QKGEOM_INLINE std::string progress::line(const std::string& label, index_t count, index_t total,
                                         const std::string& unit, double seconds) {
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

QKGEOM_INLINE std::string progress::short_number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, x < 10 ? "%.2f" : "%.0f", x);
  return text;
}

QKGEOM_INLINE std::string progress::duration(double seconds) {
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

QKGEOM_INLINE void progress::print(double seconds, bool last) {
  shown_ = true;
  const std::string text = line(label_, count_, total_, unit_, seconds);
  if (terminal_)
    std::fprintf(stderr, "\r\033[K%s%s", text.c_str(), last ? "\n" : "");
  else
    std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(stderr);
}

}  // namespace qkgeom
