// SPDX-License-Identifier: MIT
#include "qkgeom/core/thread_pool.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/io/scratch.hpp"

namespace {

using namespace qkgeom;

/// Expects `status()` to be 0 in a child process, which ends if it hangs.
template <class Status>
void expect_zero_in_a_child(const Status& status) {
  EXPECT_EXIT((::alarm(20), ::_exit(status())), testing::ExitedWithCode(0), "");
}

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
  expect_zero_in_a_child([] {
    std::ifstream pages("/proc/self/statm");
    rlim_t used = 0;
    pages >> used;
    const rlim_t most = used * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{64} << 20);
    const rlimit limit{most, most};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    try {
      thread_pool pool(200);
    } catch (const error& e) {
      return std::string_view(e.what()).find("of 200 threads no more than") != std::string_view::npos ? 0 : 2;
    }
    return 3;
  });
}

TEST(thread_pool, runs_in_a_forked_child) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer allows no threads in a forked child";
#endif
  for (const bool busy : {false, true}) {
    thread_pool pool(3);
    pool.for_each(8, [](index_t, int) {});
    std::atomic<bool> inside = false, over = false;
    std::thread other;
    if (busy) {  // a fork while another thread holds the pool
      other = std::thread([&] {
        pool.for_each(2, [&](index_t, int) {
          inside = true;
          while (!over) std::this_thread::yield();
        });
      });
      while (!inside) std::this_thread::yield();
    }
    expect_zero_in_a_child([&] {
      std::atomic<int> done = 0;
      for (int round = 0; round < 20; ++round) pool.for_each(5, [&](index_t, int) { ++done; });
      const thread_pool of_the_child(2);
      return done == 100 ? 0 : 1;
    });
    over = true;
    if (busy) other.join();
  }
}

TEST(thread_pool, a_watch_ends_a_loop) {
  for (const int threads : {1, 3}) {
    thread_pool pool(threads);
    std::atomic<int> calls = 0, looks = 0;
    pool.watch([&] {
      if (++looks == 3) fail("stop");
    });
    const auto call = [&](index_t, int thread) {
      ++calls;
      std::this_thread::sleep_for(std::chrono::milliseconds(thread > 0));  // the others leave the first some calls
    };
    EXPECT_THROW(pool.for_each(1000, call), error);
    EXPECT_LT(calls, 1000);
    EXPECT_NO_THROW(pool.for_each(10, [](index_t, int) {}));
  }
}

TEST(usable_cores, are_those_of_the_process) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  const int cores = usable_cores();
  EXPECT_GE(cores, 1);
  EXPECT_LE(cores, CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  EXPECT_EQ(thread_pool().size(), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(usable_cores(), cores);
}

TEST(usable_cores, quotas_of_groups_and_of_those_above) {
  const test::scratch_folder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder / name).parent_path());
    test::put(folder / name, text);
  };
  const auto quota = [&](const std::string& groups) {
    write("groups", groups);
    return detail::cpu_quota(folder / "groups", folder.path());
  };
  EXPECT_EQ(detail::cpu_quota(folder / "none", folder.path()), std::nullopt);
  write("a/b/cpu.max", "150000 100000\n");
  write("a/cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 1.5);
  EXPECT_EQ(quota("0::/a\n"), std::nullopt);
  EXPECT_EQ(quota("0::/a/b/below:with:colons\n"), 1.5);
  write("cpu.max", "50000 100000\n");  // a container's own group is at the mount
  EXPECT_EQ(quota("0::/system.slice/somewhere/else\n"), 0.5);
  write("cpu/job/cpu.cfs_quota_us", "400000\n");
  write("cpu/job/cpu.cfs_period_us", "100000\n");
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota("7:memory:/a\n5:cpu,cpuacct:/job\n"), 4);
  EXPECT_EQ(quota("5:cpuacct:/job\n"), std::nullopt);
  EXPECT_EQ(quota("5:cpu:/\n"), std::nullopt);
  write("cpu.max", "rubbish");
  EXPECT_EQ(quota("0::/\nno colons\n"), std::nullopt);
}

}  // namespace
