// SPDX-License-Identifier: MIT
#include "qkgeom/io/program.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <new>
#include <thread>

#include "qkgeom/core/error.hpp"
#include "qkgeom/io/file.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

/// How a program ended: its status, or -signal, and its standard error.
struct ending {
  int status = 0;
  std::string text;
};

/// Runs `body` as the program "p" in a process of its own, whose standard output goes to `output`.
ending run(const std::function<void()>& body, const std::string& output = "/dev/null") {
  const test::scratch_folder folder;
  const std::string errors = (folder / "errors").string();
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(::open(output.c_str(), O_WRONLY), STDOUT_FILENO);
    ::dup2(::open(errors.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    ::_exit(run_program("p", body));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), test::get(errors)};
}

using Program = test::in_scratch_folder;

TEST_F(Program, EndsWithAStatusAndASentence) {
  EXPECT_EQ(run([] {}).status, 0);
  const auto refused = [](const std::function<void()>& body) {
    const auto end = run(body);
    EXPECT_EQ(end.status, 2);
    EXPECT_THAT(end.text, StartsWith("p: "));
    EXPECT_EQ(std::count(end.text.begin(), end.text.end(), '\n'), 1) << end.text;
    return end.text;
  };
  EXPECT_EQ(refused([] { fail("the sentence"); }), "p: the sentence\n");
  EXPECT_EQ(refused([] { throw std::bad_alloc(); }), "p: not enough memory\n");
  EXPECT_EQ(refused([] { std::vector<char>().reserve(~std::size_t{0}); }), "p: not enough memory\n");
  fs::create_symlink("loop", folder / "loop");
  EXPECT_EQ(refused([&] { (void)fs::file_size(folder / "loop"); }),
            "p: " + (folder / "loop").string() + ": Too many levels of symbolic links\n");
}

TEST_F(Program, NoticesThatItsOutputIsLost) {
  const auto full = [](const std::function<void()>& body) {
    const auto end = run(body, "/dev/full");
    EXPECT_EQ(end.status, 2);
    EXPECT_THAT(end.text, StartsWith("p: cannot write all of the standard output"));
  };
  full([] { std::printf("line\n"); });
  full([] { std::cout << "line\n"; });
  full([] { std::cout << "line" << std::endl; });
  EXPECT_EQ(run([] {}, "/dev/full").status, 0) << "nothing was printed";
}

TEST_F(Program, NamesAFileThatIsCutShortWhileItIsMapped) {
  const auto path = folder / "a file";
  test::put(path, std::string(3 << 16, 'x'));
  const auto end = run([&] {
    const mapped_file file(path);
    fs::resize_file(path, 10);
    const volatile std::byte last = file.bytes().back();
    (void)last;
  });
  EXPECT_EQ(end.status, 2);
  EXPECT_EQ(end.text, "p: " + fs::canonical(path).string() +
                          ": the file can no longer be read: it was cut short meanwhile, or its disk fails\n");
}

TEST_F(Program, AFileThatManyThreadsLoseIsNamedOnce) {
  const auto path = folder / "a file";
  const std::string why = ": the file can no longer be read: it was cut short meanwhile, or its disk fails\n";
  for (int round = 0; round < 10; ++round) {
    test::put(path, std::string(3 << 16, 'x'));
    const auto end = run([&] {
      const mapped_file file(path);
      fs::resize_file(path, 10);
      std::barrier ready(8);
      std::vector<std::jthread> threads;
      for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&] {
          ready.arrive_and_wait();
          const volatile std::byte last = file.bytes().back();
          (void)last;
        });
      }
    });
    EXPECT_EQ(end.status, 2);
    EXPECT_EQ(end.text, "p: " + fs::canonical(path).string() + why);
  }
}

#if !defined(__SANITIZE_ADDRESS__)  // which reports the signal in its own way
TEST_F(Program, LeavesOtherBusErrorsAlone) {
  EXPECT_EQ(run([] { ::raise(SIGBUS); }).status, -SIGBUS);
}
#endif

TEST(MadeFolder, IsRemovedIfItStaysEmpty) {
  const test::scratch_folder folder;
  const auto inner = folder / "a/b/c";
  {
    const made_folder made(inner);
    EXPECT_TRUE(fs::is_directory(inner));
  }
  EXPECT_FALSE(fs::exists(folder / "a"));
  {
    const made_folder made(inner);
    test::put(folder / "a/b/kept", "");
  }
  EXPECT_FALSE(fs::exists(inner));
  EXPECT_TRUE(fs::exists(folder / "a/b/kept"));
  fs::remove(folder / "a/b/kept");
  { const made_folder made(folder / "a/b"); }
  EXPECT_TRUE(fs::is_directory(folder / "a/b")) << "it was there before";
  { const made_folder made(folder / "d" / ""); }
  EXPECT_FALSE(fs::exists(folder / "d"));
  test::put(folder / "file", "");
  EXPECT_QKGEOM_ERROR("cannot make the folder", made_folder(folder / "file"));
  EXPECT_QKGEOM_ERROR("cannot make the folder", made_folder(folder / "file/x"));
}

}  // namespace
}  // namespace qkgeom
