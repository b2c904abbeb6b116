// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/error.hpp"

namespace qkgeom {

/// A fixed set of threads that run the iterations of loops. Iterations are independent, so results do not depend on the
/// number of threads.
class thread_pool {
 public:
  /// The calling thread is one of the `threads`; 0 or less: one per core. Throws `error` if the system cannot start
  /// them.
  explicit thread_pool(int threads = 0)
      : size_(threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {
    try {
      for (int i = 1; i < size_; ++i) workers_.emplace_back([this, i] { work(i); });
    } catch (const std::system_error& e) {
      end_workers();
      fail("threads: of ", size_, " threads no more than ", workers_.size() + 1, " could be started: ", e.what());
    }
  }
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
    run([&](int thread) {
      try {
        for (index_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n;) f(i, thread);
      } catch (...) {
        next.store(n);
        const std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
      }
    });
    if (failure) std::rethrow_exception(failure);
  }

 private:
  /// Marks a loop that the current thread works on, as thread number `thread` of the pool, while this object lives.
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
  static const running_loop*& innermost() {
    thread_local const running_loop* loop = nullptr;
    return loop;
  }
  /// The loop of this pool that the current thread works on; null if there is none.
  const running_loop* loop_here() const {
    const running_loop* loop = innermost();
    while (loop != nullptr && loop->pool != this) loop = loop->outer;
    return loop;
  }

  void end_workers() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (auto& w : workers_) w.join();
  }

  template <class Body>
  void run(Body&& body) {
    void (*call)(void*, int) = [](void* b, int thread) { (*static_cast<std::remove_reference_t<Body>*>(b))(thread); };
    {
      const std::lock_guard lock(mutex_);
      body_ = &body;
      call_ = call;
      pending_ = size_ - 1;
      ++generation_;
    }
    wake_.notify_all();
    {
      const running_loop mine(*this, 0);
      body(0);
    }
    const auto all_done = [this] { return pending_.load(std::memory_order_acquire) == 0; };
    spin_until(all_done);
    std::unique_lock lock(mutex_);
    done_.wait(lock, all_done);
  }

  void work(int me) {
    std::uint64_t seen = 0;
    for (;;) {
      const auto called = [&] { return stop_.load() || generation_.load(std::memory_order_acquire) != seen; };
      spin_until(called);
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, called);
        if (stop_) return;
        seen = generation_;
      }
      {
        const running_loop mine(*this, me);
        call_(body_, me);
      }
      if (pending_.fetch_sub(1, std::memory_order_acq_rel) > 1) continue;
      const std::lock_guard lock(mutex_);
      done_.notify_one();
    }
  }

  /// Waits briefly without sleeping: loops follow each other closely, and waking a thread takes some 50 microseconds.
  template <class Condition>
  static void spin_until(const Condition& condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#else
      std::this_thread::yield();
#endif
    }
  }

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
