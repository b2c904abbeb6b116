// SPDX-License-Identifier: MIT
#include "qkgeom/io/program.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <cstdio>
#include <iostream>
#include <new>
#include <thread>

#include "qkgeom/io/file.hpp"
#include "tests/io/scratch.hpp"

namespace qkgeom {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

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

TEST(Progress, ShortWorkPrintsNothing) {
  CaptureStderr();
  {
    progress bar("work", 10, "tokens");
    for (int i = 0; i < 10; ++i) bar.add();
    bar.done();
  }
  EXPECT_EQ(GetCapturedStderr(), "");
}

TEST(Progress, LongWorkPrintsRateAndTimeLeft) {
  CaptureStderr();
  {
    progress bar("work", 1000, "tokens");
    bar.add(400);
    std::this_thread::sleep_for(std::chrono::milliseconds(2100));
    std::thread other([&] { bar.add(100); });
    other.join();
    bar.add(500);
  }
  const auto text = GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("work [############............] 50 %  500/1000 tokens"));
  EXPECT_THAT(text, HasSubstr(" left\n"));
  EXPECT_THAT(text, HasSubstr("100 %  1000/1000 tokens"));
}

TEST(Progress, Lines) {
  EXPECT_EQ(progress::line("capture", 250, 1000, "tokens", 10),
            "capture [######..................] 25 %  250/1000 tokens  25 tokens/s  30 s left");
  EXPECT_EQ(progress::line("capture", 10, 7210, "heads", 10),
            "capture [........................] 0 %  10/7210 heads  1.00 heads/s  2 h 00 min left");
  EXPECT_EQ(progress::line("x", 4, 4, "heads", 62),
            "x [########################] 100 %  4/4 heads  0.06 heads/s  1 min 02 s");
  EXPECT_EQ(progress::line("x", 5, 0, "rows", 2), "x 5 rows  2.50 rows/s");
  EXPECT_EQ(progress::line("x", 0, 3, "rows", 0), "x [........................] 0 %  0/3 rows  0.00 rows/s");
}

TEST(OneProcess, RefusesSeveralThatALauncherStarted) {
  for (const std::string name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    ::setenv(name.c_str(), "1", 1);
    EXPECT_NO_THROW(require_no_other_process()) << name;
    ::setenv(name.c_str(), "3", 1);
    EXPECT_QKGEOM_ERROR("a launcher started 3 (" + name + ")", require_no_other_process());
    ::unsetenv(name.c_str());
  }
  EXPECT_NO_THROW(require_no_other_process());
}

}  // namespace
}  // namespace qkgeom
