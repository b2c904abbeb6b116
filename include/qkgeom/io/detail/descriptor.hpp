// SPDX-License-Identifier: MIT
#pragma once

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

namespace qkgeom::detail {

/// Owns a file descriptor.
class descriptor {
 public:
  explicit descriptor(int fd = -1) : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  /// Closes now, so that the caller sees a late error of the file system: false with errno set.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

/// A write past the file size limit raises SIGXFSZ, which ends the process by default. While the guard lives this
/// thread blocks and then discards it, so that the write fails with EFBIG.
class file_size_signal_guard {
 public:
  file_size_signal_guard() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~file_size_signal_guard() {
    if (sigismember(&before_, SIGXFSZ) == 1) return;
    const int saved = errno;
    const timespec now{};
    while (sigtimedwait(&set_, nullptr, &now) == -1 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved;
  }
  file_size_signal_guard(const file_size_signal_guard&) = delete;
  file_size_signal_guard& operator=(const file_size_signal_guard&) = delete;

 private:
  sigset_t set_{};
  sigset_t before_{};
};

}  // namespace qkgeom::detail
