// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// A fixed set of threads that run loops of independent iterations; results do not depend on the number of threads.
class thread_pool {
 public:
  /// Starts `threads` threads less the calling one (0 or less: one per core). Throws `error` if they cannot be started.
  explicit thread_pool(int threads = 0);
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  ~thread_pool() { end_workers(); }

  int size() const { return size_; }

  /// Calls `f(i, thread)` for i in [0, n), thread in [0, size()), in any order; simultaneous calls have different
  /// `thread`. Rethrows the first exception after all threads have stopped. A loop started inside an iteration, of this
  /// pool or another, runs on that thread alone. Loops that several threads start on one pool run one after another, so
  /// iterations on two pools must not each start loops on the other pool.
  template <class F>
  void for_each(index_t n, F&& f) {
    if (n <= 0) return;
    if (const running_loop* const mine = loop_here()) {
      for (index_t i = 0; i < n; ++i) f(i, mine->thread);
      return;
    }
    const std::lock_guard one_loop(loop_);
    if (size_ == 1 || n == 1 || innermost() != nullptr) {
      const running_loop alone(*this, 0);
      for (index_t i = 0; i < n; ++i) f(i, 0);
      return;
    }
    std::atomic<index_t> next{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
    auto body = [&](int thread) {
      try {
        for (index_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) f(i, thread);
      } catch (...) {
        next.store(n);
        const std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
      }
    };
    run(&body, [](void* b, int thread) { (*static_cast<decltype(body)*>(b))(thread); });
    if (failure) std::rethrow_exception(failure);
  }

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

  void end_workers();

  /// Calls `call(body, thread)` on every thread of the pool and returns when all are done.
  void run(void* body, void (*call)(void*, int));

  void work(int me);

  int size_;
  std::vector<std::thread> workers_;
  std::mutex loop_, mutex_;
  std::condition_variable wake_, done_;
  void* body_ = nullptr;
  void (*call_)(void*, int) = nullptr;
  std::atomic<int> pending_ = 0;
  std::atomic<std::uint64_t> generation_ = 0;
  std::atomic<bool> stop_ = false;
};

}  // namespace qkgeom

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/core/detail/thread_pool.hpp"
#endif
