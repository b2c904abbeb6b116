// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Returns how many threads this process can run at once: the cores of its CPU set (taskset, Slurm, containers), but no
/// more than the CPU quotas of its control groups (version 1 and 2), rounded up, allow. At least 1.
QKGEOM_INLINE int usable_cores();

namespace detail {

/// Returns the least CPU quota, in cores, of the control groups in `groups` (/proc/self/cgroup) and of those above
/// them, whose folders are in `mounts` (/sys/fs/cgroup); null without one.
QKGEOM_INLINE std::optional<double> cpu_quota(const std::filesystem::path& groups, const std::filesystem::path& mounts);

}  // namespace detail

/// A fixed set of threads that run loops of independent iterations; results do not depend on the number of threads.
class thread_pool {
 public:
  /// Starts `threads` threads less the calling one (0 or less: `usable_cores()`). Throws `error` if they cannot be
  /// started.
  explicit thread_pool(int threads = 0);
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  ~thread_pool();

  int size() const { return size_; }

  /// Calls `f(i, thread)` for i in [0, n), thread in [0, size()), in any order; simultaneous calls have different
  /// `thread`. Rethrows the first exception after all threads have stopped. A loop started inside an iteration, of this
  /// pool or another, runs on that thread alone. Loops that several threads start on one pool run one after another, so
  /// iterations on two pools must not each start loops on the other pool. In a forked child the pool starts new
  /// threads.
  template <class F>
  void for_each(index_t n, F&& f) {
    if (n <= 0) return;
    if (const running_loop* const mine = loop_here()) {
      for (index_t i = 0; i < n; ++i) f(i, mine->thread);
      return;
    }
    team& here = team_of_process();
    const std::lock_guard one_loop(here.loop);
    if (size_ == 1 || n == 1 || innermost() != nullptr) {
      const running_loop alone(*this, 0);
      for (index_t i = 0; i < n; ++i) {
        if (watch_) watch_();
        f(i, 0);
      }
      return;
    }
    std::atomic<index_t> next{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
    auto body = [&](int thread) {
      try {
        for (index_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) {
          if (thread == 0 && watch_) watch_();
          f(i, thread);
        }
      } catch (...) {
        next.store(n);
        const std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
      }
    };
    here.run(&body, [](void* b, int thread) { (*static_cast<decltype(body)*>(b))(thread); });
    if (failure) std::rethrow_exception(failure);
  }

  /// Calls `f` on the thread that started a loop, before each iteration that runs there; what it throws ends the loop.
  /// Set it while no loop runs.
  void watch(std::function<void()> f) { watch_ = std::move(f); }

 private:
  /// Marks the loop that the current thread works on, as thread number `thread` of the pool, while this object lives.
  /// Loops of several pools may be nested.
  struct running_loop {
    const thread_pool* pool;
    int thread;
    const running_loop* outer = innermost();

    running_loop(const thread_pool& p, int number) : pool(&p), thread(number) { innermost() = this; }
    running_loop(const running_loop&) = delete;
    running_loop& operator=(const running_loop&) = delete;
    ~running_loop() { innermost() = outer; }
  };
  static const running_loop*& innermost();
  /// Returns the loop of this pool that the current thread works on; null without one.
  const running_loop* loop_here() const;

  /// The threads of one process, and what they wait for.
  struct team {
    explicit team(const thread_pool& pool);
    ~team() { end_workers(); }
    void end_workers();
    /// Calls `call(body, thread)` on every thread of the pool and returns when all are done.
    void run(void* body, void (*call)(void*, int));
    void work(int me);

    const thread_pool& pool;
    int process;
    std::vector<std::thread> workers;
    std::mutex loop, mutex;
    std::condition_variable wake, done;
    void* body = nullptr;
    void (*call)(void*, int) = nullptr;
    std::atomic<int> pending = 0;
    std::atomic<std::uint64_t> generation = 0;
    std::atomic<bool> stop = false;
  };
  /// Returns the team; in a forked child, which has no thread of its parent's team, a new one in its place.
  team& team_of_process();

  int size_;
  std::function<void()> watch_;
  std::atomic<team*> team_ = nullptr;
};

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/core/detail/thread_pool.hpp"
#endif
