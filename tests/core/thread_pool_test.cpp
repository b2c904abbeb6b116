// SPDX-License-Identifier: MIT
#include "qkgeom/core/thread_pool.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <fstream>
#include <string_view>
#include <thread>
#include <vector>

#include "qkgeom/core/error.hpp"

namespace {

using namespace qkgeom;

TEST(thread_pool, does_every_task_once_and_rethrows) {
  for (const int threads : {1, 2, 5}) {
    thread_pool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int round = 0; round < 50; ++round) {
      std::vector<std::atomic<int>> done(97);
      pool.for_each(97, [&](index_t i, int thread) {
        ASSERT_LT(thread, threads);
        pool.for_each(3, [&](index_t, int inner) { EXPECT_EQ(inner, thread); });
        ++done[i];
      });
      for (const auto& d : done) ASSERT_EQ(d, 1);
    }
    EXPECT_THROW(pool.for_each(20, [](index_t i, int) { require(i != 7, "seven"); }), error);
    std::atomic<int> after{0};
    pool.for_each(4, [&](index_t, int) { ++after; });
    EXPECT_EQ(after, 4);
  }
}

TEST(thread_pool, a_smaller_pool_within_gives_its_own_thread_numbers) {
  for (const int threads : {1, 2}) {
    thread_pool outer(4), inner(threads);
    std::vector<std::atomic<int>> busy(threads);
    std::atomic<int> calls{0}, shared{0};
    outer.for_each(64, [&](index_t, int thread) {
      inner.for_each(5, [&](index_t, int within) {
        ASSERT_LT(within, threads);
        auto& mine = busy[within];
        shared += mine++ > 0;
        outer.for_each(2, [&](index_t, int again) { EXPECT_EQ(again, thread); });
        inner.for_each(2, [&](index_t, int again) { EXPECT_EQ(again, within); });
        std::this_thread::yield();
        --mine;
        ++calls;
      });
    });
    EXPECT_EQ(calls, 64 * 5);
    EXPECT_EQ(shared, 0);  // no two threads have one number at a time
    EXPECT_THROW(outer.for_each(8, [&](index_t, int) { inner.for_each(2, [](index_t, int) { fail("inner"); }); }),
                 error);
    inner.for_each(3, [&](index_t, int within) { EXPECT_LT(within, threads); });
  }
}

TEST(thread_pool, threads_that_the_system_does_not_start_are_an_error) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer maps more than any limit of addresses allows";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // ends the child if the pool hangs
    std::ifstream pages("/proc/self/statm");
    rlim_t used = 0;
    pages >> used;
    const rlim_t most = used * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{64} << 20);
    const rlimit limit{most, most};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(1);
    try {
      thread_pool pool(200);
    } catch (const error& e) {
      ::_exit(std::string_view(e.what()).find("of 200 threads no more than") != std::string_view::npos ? 0 : 2);
    }
    ::_exit(3);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
