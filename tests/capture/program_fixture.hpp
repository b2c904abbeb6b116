// SPDX-License-Identifier: MIT
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "qkgeom/io/file.hpp"
#include "tests/capture/capture_fixture.hpp"

namespace qkgeom::test {

/// What a program may have: bytes of a file and of address space (0: no limit), and variables NAME=VALUE.
struct conditions {
  rlim_t file_size = 0, address_space = 0;
  std::vector<std::string> variables{};
  std::string log = "log";  ///< file of the scratch folder for its output
  std::string program = "qkgeom-capture";
  std::vector<std::string> launcher{};  ///< words before the program's, such as mpirun -n 2
};

/// Runs programs on the bundled model in a scratch folder.
class capture_program : public ::testing::Test {
 protected:
  /// Starts the program; its output goes to FOLDER/log.
  pid_t start(const std::vector<std::string>& arguments, const conditions& given = {}) const {
    const std::string program = std::string(QKGEOM_BIN) + '/' + given.program;
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    const int log = ::open((folder / given.log).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    if (given.file_size > 0) limit(RLIMIT_FSIZE, given.file_size);
    if (given.address_space > 0) limit(RLIMIT_AS, given.address_space);
    for (const auto& variable : given.variables) ::putenv(const_cast<char*>(variable.c_str()));
    std::vector<char*> argv;
    for (const auto& word : given.launcher) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(const_cast<char*>(program.c_str()));
    for (const auto& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  /// The exit status, or -signal.
  static int wait(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// Whether the program has not ended.
  static bool runs(pid_t pid) {
    siginfo_t ended{};
    return ::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
  }
  /// Waits until a file is there, or the program has ended.
  void wait_for(const std::string& name, pid_t pid) const {
    while (!std::filesystem::exists(folder / name) && runs(pid))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  /// Kills the program; returns its status as `wait` does.
  static int end(pid_t pid) {
    ::kill(pid, SIGKILL);
    return wait(pid);
  }
  int run(const std::vector<std::string>& arguments, const conditions& given = {}) const {
    return wait(start(arguments, given));
  }
  /// The output of a run that is refused.
  std::string refused(const std::vector<std::string>& arguments, const conditions& given = {}) const {
    EXPECT_EQ(run(arguments, given), 2);
    return log();
  }
  /// Kills the program once it has used that much CPU time; false: it ended before.
  static bool kill_after(pid_t pid, double cpu_seconds) {
    clockid_t clock{};
    timespec worked{};
    EXPECT_EQ(::clock_getcpuclockid(pid, &clock), 0);
    while (runs(pid) && ::clock_gettime(clock, &worked) == 0 && seconds(worked) < cpu_seconds)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    return end(pid) == -SIGKILL;
  }
  template <class Resource>
  static void limit(Resource what, rlim_t most) {
    const rlimit both{most, most};
    ::setrlimit(what, &both);
  }
  static double seconds(const timespec& t) {
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  static double seconds(const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  }
  std::string log() const { return read_text(folder / "log", 1 << 20); }
  /// The program's only line that is neither a note nor its progress.
  std::string sentence(const std::string& from = "log") const {
    std::istringstream lines(read_text(folder / from, 1 << 20));
    std::string found;
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with("note: ") && !line.starts_with("capture [")) {
        EXPECT_EQ(found, "") << "more than one sentence: " << line;
        found = line;
      }
    return found;
  }

  /// A capture of about a second in several shards, of the first layer, so that writing takes most of the time.
  std::vector<std::string> capture_to(const std::string& out, bool resume = false) const {
    std::vector<std::string> a{"--model",       (bundled / "stage1-step-1000").string(),
                               "--jsonl",       (folder / "documents.jsonl").string(),
                               "--out",         (folder / out).string(),
                               "--max-length",  "1024",
                               "--bucket-size", "64",
                               "--rate",        "8",
                               "--threads",     "2",
                               "--seed",        "7",
                               "--layers",      "0",
                               "--moments"};
    if (resume) a.push_back("--resume");
    return a;
  }
  /// Documents that fill some shards.
  void write_documents(int books) const { write_books(folder / "documents.jsonl", books); }

  const scratch_folder folder;
};

}  // namespace qkgeom::test
