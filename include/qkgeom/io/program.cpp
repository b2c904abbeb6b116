// SPDX-License-Identifier: MIT
#include "qkgeom/io/program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <stdexcept>
#include <system_error>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/utf8.hpp"

namespace qkgeom {

namespace {

/// Program name for the handler of SIGBUS.
char lost_file_program[64] = "qkgeom";

/// Parses a line of /proc/self/maps character by character: "BEGIN-END MODE OFFSET DEVICE INODE    PATH".
struct mapping_line {
  static constexpr std::size_t longest_path = 4096;
  std::uintptr_t begin = 0, end = 0;
  int field = 0;
  std::size_t length = 0;
  char path[longest_path];

  void add(char c) {
    if (field >= 5) {  // skips blanks before the path, keeps blanks inside it
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

void write_all(const char* text, std::size_t n) {
  while (n > 0) {
    const auto written = ::write(STDERR_FILENO, text, n);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    n -= static_cast<std::size_t>(written);
  }
}

/// Finds the mapped file at an address and ends the process; returns if there is no such file. Makes only calls that
/// are safe inside a signal handler.
void end_with_lost_file(std::uintptr_t address) {
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

/// Handles SIGBUS. Several threads may lose the same file: the first reports it, the others wait for the end.
void handle_bus_error(int, siginfo_t* info, void*) {
  static std::atomic_flag taken = ATOMIC_FLAG_INIT;
  while (taken.test_and_set()) ::pause();
  end_with_lost_file(reinterpret_cast<std::uintptr_t>(info->si_addr));
  ::signal(SIGBUS, SIG_DFL);  // not a mapped file: restore the default action and raise again
  ::raise(SIGBUS);
}

/// Throws `error` unless everything printed so far has reached standard output.
void flush_output() {
  std::cout.flush();
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  require(written, "cannot write all of the standard output", errno != 0 ? ": " : "",
          errno != 0 ? std::strerror(errno) : "");
}

std::string out_of_memory() {
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? "not enough memory: this process may have " + std::to_string(limit.rlim_cur >> 20) +
                       " MiB of address space (ulimit -v)"
                 : "not enough memory";
}

}  // namespace

void report_lost_files(const std::string& name) {
  const std::size_t n = std::min(name.size(), sizeof lost_file_program - 1);
  std::memcpy(lost_file_program, name.data(), n);
  lost_file_program[n] = '\0';
  struct sigaction action {};
  action.sa_sigaction = handle_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

int run_program(const std::string& name, const std::function<void()>& body) {
  const auto refuse = [&](const std::string& why) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s: %s\n", name.c_str(), terminal_text(why).c_str());
    return 2;
  };
  report_lost_files(name);
  ::signal(SIGXFSZ, SIG_IGN);  // writes past a limit of file sizes fail and are reported
  try {
    body();
    flush_output();
    return 0;
  } catch (const std::bad_alloc&) {
    return refuse(out_of_memory());
  } catch (const std::length_error&) {  // a container larger than any memory
    return refuse(out_of_memory());
  } catch (const std::filesystem::filesystem_error& e) {
    const auto& path = e.path2().empty() ? e.path1() : e.path2();
    return refuse((path.empty() ? std::string() : path.string() + ": ") + e.code().message());
  } catch (const std::exception& e) {
    return refuse(e.what());
  }
}

made_folder::made_folder(const std::filesystem::path& path) {
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

made_folder::~made_folder() {
  for (auto p = made_.rbegin(); p != made_.rend(); ++p) ::rmdir(p->c_str());  // fails on a folder that is not empty
}

void progress::add(index_t n) {
  const std::lock_guard lock(mutex_);
  count_ += n;
  const auto now = clock::now();
  const auto wait = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
  if (now - start_ < std::chrono::seconds(2) || now - last_ < wait) return;
  if (!terminal_ && total_ > 0 && count_ >= total_ && shown_) return;  // `done` has the last line
  last_ = now;
  print(std::chrono::duration<double>(now - start_).count(), false);
}

void progress::done() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(done_, true) || !shown_) return;
  print(std::chrono::duration<double>(clock::now() - start_).count(), true);
}

std::string progress::line(const std::string& label, index_t count, index_t total, const std::string& unit,
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

std::string progress::short_number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, x < 10 ? "%.2f" : "%.0f", x);
  return text;
}

std::string progress::duration(double seconds) {
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

void progress::print(double seconds, bool last) {
  shown_ = true;
  const std::string text = line(label_, count_, total_, unit_, seconds);
  if (terminal_)
    std::fprintf(stderr, "\r\033[K%s%s", text.c_str(), last ? "\n" : "");
  else
    std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(stderr);
}

void become_cuda_program(char** argv) {
  std::error_code unread;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", unread);
  require(!unread, "--device cuda: cannot read /proc/self/exe: ", unread.message());
  const auto other = self.string() + "-cuda";
  ::execv(other.c_str(), argv);
  const std::error_code unstarted(errno, std::generic_category());
  fail("--device cuda needs ", other, ", which a whole build makes where CUDA 12.8 or newer is: ", unstarted.message());
}

void require_no_other_process(int known) {
  // Open MPI and PRRTE; MPICH, Intel's MPI and srun --mpi=pmi2; MVAPICH.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    const char* const processes = std::getenv(name);
    if (!processes || std::atoi(processes) <= known) continue;
    require(known > 1, "this program runs in one process, but a launcher started ", processes, " (", name,
            "); each would write the same files");
    fail("a launcher started ", processes, " processes (", name, "), of which this one knows ", known);
  }
}

}  // namespace qkgeom
