// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/program.hpp"

namespace qkgeom {

namespace detail {

/// The program's name, for the handler of SIGBUS.
inline char lost_file_program[64] = "qkgeom";

/// A line of /proc/self/maps, taken in character by character: "BEGIN-END MODE OFFSET DEVICE INODE    PATH".
struct mapping_line {
  static constexpr std::size_t longest_path = 4096;
  std::uintptr_t begin = 0, end = 0;
  int field = 0;
  std::size_t length = 0;
  char path[longest_path];

  void add(char c) {
    if (field >= 5) {  // blanks before the path; blanks inside it belong to it
      if ((c != ' ' || length > 0) && length < longest_path) path[length++] = c;
      return;
    }
    if (c == ' ') {
      ++field;
      return;
    }
    if (field > 0) return;
    if (c == '-') {
      begin = std::exchange(end, 0);
      return;
    }
    const int digit = c <= '9' ? c - '0' : c - 'a' + 10;
    end = end << 4 | static_cast<std::uintptr_t>(digit);
  }
};

QKGEOM_INLINE void write_all(const char* text, std::size_t n) {
  while (n > 0) {
    const auto written = ::write(STDERR_FILENO, text, n);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    n -= static_cast<std::size_t>(written);
  }
}

/// Finds the mapped file at an address and ends the process; returns if there is none. Only calls that are safe inside
/// a signal handler.
QKGEOM_INLINE void end_with_lost_file(std::uintptr_t address) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return;
  mapping_line line;
  char buffer[1024];
  for (;;) {
    const auto n = ::read(maps, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    for (auto i = decltype(n){0}; i < n; ++i) {
      if (buffer[i] != '\n') {
        line.add(buffer[i]);
        continue;
      }
      if (line.begin <= address && address < line.end && line.length > 0 && line.path[0] == '/') {
        constexpr char why[] = ": the file can no longer be read: it was cut short meanwhile, or its disk fails\n";
        write_all(lost_file_program, std::strlen(lost_file_program));
        write_all(": ", 2);
        write_all(line.path, line.length);
        write_all(why, sizeof why - 1);
        ::_exit(2);
      }
      line.begin = line.end = 0;
      line.field = 0;
      line.length = 0;
    }
  }
  ::close(maps);
}

/// Threads may lose the same file at once: the first says so, the others wait until it has ended the process.
QKGEOM_INLINE void handle_bus_error(int, siginfo_t* info, void*) {
  static std::atomic_flag taken = ATOMIC_FLAG_INIT;
  while (taken.test_and_set()) ::pause();
  end_with_lost_file(reinterpret_cast<std::uintptr_t>(info->si_addr));
  ::signal(SIGBUS, SIG_DFL);  // of no mapped file: it ends the process as it would have without this handler
  ::raise(SIGBUS);
}

/// Throws `error` unless everything printed so far has reached standard output.
QKGEOM_INLINE void flush_output() {
  std::cout.flush();
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  require(written, "cannot write all of the standard output", errno != 0 ? ": " : "",
          errno != 0 ? std::strerror(errno) : "");
}

QKGEOM_INLINE std::string out_of_memory() {
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? "not enough memory: this process may have " + std::to_string(limit.rlim_cur >> 20) +
                       " MiB of address space (ulimit -v)"
                 : "not enough memory";
}

}  // namespace detail

QKGEOM_INLINE void report_lost_files(const std::string& name) {
  const std::size_t n = std::min(name.size(), sizeof detail::lost_file_program - 1);
  std::memcpy(detail::lost_file_program, name.data(), n);
  detail::lost_file_program[n] = '\0';
  struct sigaction action {};
  action.sa_sigaction = detail::handle_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

QKGEOM_INLINE int run_program(const std::string& name, const std::function<void()>& body) {
  const auto refuse = [&](const std::string& why) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s: %s\n", name.c_str(), why.c_str());
    return 2;
  };
  report_lost_files(name);
  try {
    body();
    detail::flush_output();
    return 0;
  } catch (const std::bad_alloc&) {
    return refuse(detail::out_of_memory());
  } catch (const std::length_error&) {  // a container larger than any memory
    return refuse(detail::out_of_memory());
  } catch (const std::filesystem::filesystem_error& e) {
    const auto& path = e.path2().empty() ? e.path1() : e.path2();
    return refuse((path.empty() ? std::string() : path.string() + ": ") + e.code().message());
  } catch (const std::exception& e) {
    return refuse(e.what());
  }
}

QKGEOM_INLINE made_folder::made_folder(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> missing;
  std::error_code code;
  for (auto p = path.lexically_normal(); !p.empty() && !std::filesystem::exists(p, code); p = p.parent_path()) {
    if (p.has_filename()) missing.push_back(p);
    if (p == p.parent_path()) break;
  }
  std::filesystem::create_directories(path, code);
  require(std::filesystem::is_directory(path), "cannot make the folder ", path.string(), ": ",
          code ? code.message() : "it is a file");
  made_.assign(missing.rbegin(), missing.rend());
}

QKGEOM_INLINE made_folder::~made_folder() {
  for (auto p = made_.rbegin(); p != made_.rend(); ++p) ::rmdir(p->c_str());  // fails on one that holds something
}

}  // namespace qkgeom
