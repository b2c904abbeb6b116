// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <system_error>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/thread_pool.hpp"

namespace qkgeom {

namespace detail {

/// Waits briefly without sleeping: loops follow each other closely, and waking a thread takes some 50 microseconds.
template <class Condition>
void spin_until(const Condition& condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
  }
}

}  // namespace detail

QKGEOM_INLINE thread_pool::thread_pool(int threads)
    : size_(threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {
  try {
    for (int i = 1; i < size_; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& e) {
    end_workers();
    fail("threads: of ", size_, " threads no more than ", workers_.size() + 1, " could be started: ", e.what());
  }
}

QKGEOM_INLINE const thread_pool::running_loop*& thread_pool::innermost() {
  thread_local const running_loop* loop = nullptr;
  return loop;
}

QKGEOM_INLINE const thread_pool::running_loop* thread_pool::loop_here() const {
  const running_loop* loop = innermost();
  while (loop != nullptr && loop->pool != this) loop = loop->outer;
  return loop;
}

QKGEOM_INLINE void thread_pool::end_workers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (auto& w : workers_) w.join();
}

QKGEOM_INLINE void thread_pool::run(void* body, void (*call)(void*, int)) {
  {
    const std::lock_guard lock(mutex_);
    body_ = body;
    call_ = call;
    pending_ = size_ - 1;
    ++generation_;
  }
  wake_.notify_all();
  {
    const running_loop mine(*this, 0);
    call(body, 0);
  }
  const auto all_done = [this] { return pending_.load(std::memory_order_acquire) == 0; };
  detail::spin_until(all_done);
  std::unique_lock lock(mutex_);
  done_.wait(lock, all_done);
}

QKGEOM_INLINE void thread_pool::work(int me) {
  std::uint64_t seen = 0;
  for (;;) {
    const auto called = [&] { return stop_.load() || generation_.load(std::memory_order_acquire) != seen; };
    detail::spin_until(called);
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

}  // namespace qkgeom
