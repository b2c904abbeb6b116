// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#endif

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

/// Reads the CPU quota of one control group, in cores; null if `folder` sets none.
inline std::optional<double> group_quota(const std::filesystem::path& folder) {
  std::string quota;
  double period = 0;
  if (std::ifstream file(folder / "cpu.max"); file >> quota >> period) {
    // version 2: "QUOTA PERIOD", or "max PERIOD"
  } else if (std::ifstream v1(folder / "cpu.cfs_quota_us"), length(folder / "cpu.cfs_period_us");
             !(v1 >> quota && length >> period)) {
    return std::nullopt;
  }
  const double microseconds = std::strtod(quota.c_str(), nullptr);  // 0 for "max", -1 for none in version 1
  if (!(microseconds > 0 && period > 0)) return std::nullopt;
  return microseconds / period;
}

QKGEOM_INLINE std::optional<double> cpu_quota(const std::filesystem::path& groups,
                                              const std::filesystem::path& mounts) {
  std::optional<double> least;
  std::ifstream file(groups);
  for (std::string line; std::getline(file, line);) {
    // A line is NUMBER:CONTROLLERS:/PATH; version 2 names no controllers.
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers != ",," && controllers.find(",cpu,") == controllers.npos) continue;
    const auto mount = controllers == ",," ? mounts : mounts / "cpu";
    // A container sees its own group at the mount, whatever path it has outside.
    for (auto path = std::filesystem::path(line.substr(second + 1)).relative_path();; path = path.parent_path()) {
      if (const auto quota = group_quota(mount / path); quota && !(least && *least <= *quota)) least = quota;
      if (path.empty()) break;
    }
  }
  return least;
}

}  // namespace detail

QKGEOM_INLINE int usable_cores() {
  int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
#if defined(__linux__)
  // The kernel refuses a set that is smaller than its own.
  for (std::size_t most = 1024; most <= std::size_t{1} << 20; most *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(most), [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    if (!set || sched_getaffinity(0, bytes, set.get()) != 0) continue;
    cores = std::max(1, CPU_COUNT_S(bytes, set.get()));
    break;
  }
  if (const auto quota = detail::cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup"))
    cores = std::min(cores, std::max(1, static_cast<int>(std::ceil(*quota))));
#endif
  return cores;
}

QKGEOM_INLINE thread_pool::thread_pool(int threads) : size_(threads > 0 ? threads : usable_cores()) {
  team_ = new team(*this);
}

QKGEOM_INLINE thread_pool::~thread_pool() {
  if (team* const mine = team_.load(); mine->process == getpid()) delete mine;
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

QKGEOM_INLINE thread_pool::team& thread_pool::team_of_process() {
  team* now = team_.load();
  if (now->process == getpid()) return *now;
  // The parent's team is left as it is: its mutexes may be held, and its threads cannot be joined.
  auto fresh = std::make_unique<team>(*this);
  if (!team_.compare_exchange_strong(now, fresh.get())) return *now;
  return *fresh.release();
}

QKGEOM_INLINE thread_pool::team::team(const thread_pool& p) : pool(p), process(getpid()) {
  try {
    for (int i = 1; i < pool.size(); ++i) workers.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& e) {
    end_workers();
    fail("threads: of ", pool.size(), " threads no more than ", workers.size() + 1, " could be started: ", e.what());
  }
}

QKGEOM_INLINE void thread_pool::team::end_workers() {
  {
    const std::lock_guard lock(mutex);
    stop = true;
  }
  wake.notify_all();
  for (auto& w : workers) w.join();
}

QKGEOM_INLINE void thread_pool::team::run(void* to_run, void (*how)(void*, int)) {
  {
    const std::lock_guard lock(mutex);
    body = to_run;
    call = how;
    pending = pool.size() - 1;
    ++generation;
  }
  wake.notify_all();
  {
    const running_loop mine(pool, 0);
    how(to_run, 0);
  }
  const auto all_done = [this] { return pending.load(std::memory_order_acquire) == 0; };
  detail::spin_until(all_done);
  std::unique_lock lock(mutex);
  done.wait(lock, all_done);
}

QKGEOM_INLINE void thread_pool::team::work(int me) {
  std::uint64_t seen = 0;
  for (;;) {
    const auto called = [&] { return stop.load() || generation.load(std::memory_order_acquire) != seen; };
    detail::spin_until(called);
    {
      std::unique_lock lock(mutex);
      wake.wait(lock, called);
      if (stop) return;
      seen = generation;
    }
    {
      const running_loop mine(pool, me);
      call(body, me);
    }
    if (pending.fetch_sub(1, std::memory_order_acq_rel) > 1) continue;
    const std::lock_guard lock(mutex);
    done.notify_one();
  }
}

}  // namespace qkgeom
