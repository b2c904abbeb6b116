// SPDX-License-Identifier: MIT
// A CUDA device emulated by the host, so that tests without a GPU run the code that calls CUDA: allocations, copies,
// launches, products and waits. The headers beside this one take the place of CUDA's.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "qkgeom/core/error.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace qkgeom::emulated {

/// When streams work: at once (early), when somebody waits for them and no further than needed (late, the default), or
/// every second one late (mixed; then the device also reads pageable memory). QKGEOM_EMULATED_CUDA chooses. A result
/// that depends on it shows a missing wait.
enum class schedule { early, late, mixed };

inline schedule chosen_schedule() {
  const char* const said = std::getenv("QKGEOM_EMULATED_CUDA");
  const std::string_view name = said ? said : "late";
  require(name == "early" || name == "late" || name == "mixed", "QKGEOM_EMULATED_CUDA is early, late or mixed, not ",
          name);
  return name == "early" ? schedule::early : name == "late" ? schedule::late : schedule::mixed;
}

/// Memory that only a stream's work may touch: an access by the host is a segmentation fault. It holds NaN when it is
/// allocated and when it is freed. Under AddressSanitizer everything but the allocations is poisoned.
class device_arena {
 public:
  static constexpr std::size_t bytes = std::size_t{8} << 30;

  device_arena()
      : base_(static_cast<char*>(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    require(base_ != MAP_FAILED, "no address space for a device");
    madvise(base_, bytes, MADV_HUGEPAGE);  // mprotect is faster
    poison(base_, bytes);
  }
  device_arena(const device_arena&) = delete;
  ~device_arena() { munmap(base_, bytes); }

  /// Null when there is no room.
  void* allocate(std::size_t n) {
    const std::size_t size = (n + 2 * line - 1) / line * line;  // and a gap
    std::size_t at = 0;
    for (const auto& [begin, end] : used_) {
      if (begin - at >= size) break;
      at = end;
    }
    if (bytes - at < size) return nullptr;
    used_[at] = at + size;
    asked_[at] = n;
    held_ += size;
    if (at + size > reached_) {
      reached_ = (at + size + page - 1) / page * page;
      if (doors_ > 0) mprotect(base_, reached_, PROT_READ | PROT_WRITE);
    }
    const open_door door(*this);
    unpoison(base_ + at, n);
    std::memset(base_ + at, 0xff, n);
    return base_ + at;
  }
  void release(void* p) {
    const auto at = static_cast<std::size_t>(static_cast<char*>(p) - base_);
    const auto used = used_.find(at);
    require(used != used_.end(), "what is freed was not allocated on the device, or was freed before");
    {
      const open_door door(*this);
      std::memset(p, 0xff, asked_[at]);
    }
    poison(base_ + at, used->second - at);
    held_ -= used->second - at;
    asked_.erase(at);
    used_.erase(used);
  }
  /// Begin and end of the allocation that holds an address; nulls if none does.
  std::pair<const char*, const char*> allocation_of(const void* p) const {
    const auto* const c = static_cast<const char*>(p);
    if (!is_inside(p)) return {};
    auto found = asked_.upper_bound(static_cast<std::size_t>(c - base_));
    if (found == asked_.begin()) return {};
    --found;
    const char* const begin = base_ + found->first;
    return c < begin + found->second ? std::pair{begin, begin + found->second} : std::pair<const char*, const char*>{};
  }
  /// Whether one allocation holds all these bytes.
  bool holds(const void* p, std::size_t n) const {
    const auto [begin, end] = allocation_of(p);
    return begin != nullptr && static_cast<const char*>(p) + n <= end;
  }
  bool is_inside(const void* p) const {
    return static_cast<const char*>(p) >= base_ && static_cast<const char*>(p) < base_ + bytes;
  }
  std::size_t held() const { return held_; }

  /// While one exists, the host may touch the memory.
  class open_door {
   public:
    explicit open_door(device_arena& of) : of_(of) {
      if (of_.doors_++ == 0) mprotect(of_.base_, of_.reached_, PROT_READ | PROT_WRITE);
    }
    open_door(const open_door&) = delete;
    ~open_door() {
      if (--of_.doors_ == 0) mprotect(of_.base_, of_.reached_, PROT_NONE);
    }

   private:
    device_arena& of_;
  };

 private:
  static constexpr std::size_t line = 256, page = std::size_t{2} << 20;

  static void poison([[maybe_unused]] void* p, [[maybe_unused]] std::size_t n) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_poison_memory_region(p, n);
#endif
  }
  static void unpoison([[maybe_unused]] void* p, [[maybe_unused]] std::size_t n) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(p, n);
#endif
  }

  char* base_;
  std::map<std::size_t, std::size_t> used_, asked_;  // begin: end with its gap; begin: bytes
  std::size_t held_ = 0, reached_ = 0;               // bytes allocated; bytes that allocations have ever reached
  int doors_ = 0;
};

/// A stream-ordered pool. It keeps all that is freed.
struct pool {
  std::size_t kept = 0;  ///< bytes
};

using work = std::function<void()>;

/// A stream: its open work, and the numbers of works given and done.
struct stream {
  std::deque<work> open;
  std::uint64_t given = 0, done = 0;
  bool waits_for_default = false, late = true;
};

/// Some work of a stream and all before it.
struct point {
  std::shared_ptr<stream> of;
  std::uint64_t number = 0;
};

class device {
 public:
  static device& the() {
    static device one;
    return one;
  }

  std::shared_ptr<stream> make_stream(bool waits_for_default) {
    const std::lock_guard lock(mutex_);
    auto made = std::make_shared<stream>();
    made->waits_for_default = waits_for_default;
    made->late = schedule_ == schedule::late || (schedule_ == schedule::mixed && made_++ % 2 == 0);
    streams_.push_back(made);
    return made;
  }
  void end(const std::shared_ptr<stream>& s) {
    const std::lock_guard lock(mutex_);
    run(now(s));
    streams_.erase(std::find(streams_.begin(), streams_.end(), s));
  }

  /// Gives work to a stream; null: the default one. It and all blocking streams wait for each other.
  void give(const std::shared_ptr<stream>& s, work w) {
    const std::lock_guard lock(mutex_);
    if (!s) {
      for (const auto& other : streams_)
        if (other->waits_for_default) add(default_, waiting_for(now(other)));
    } else if (s->waits_for_default) {
      add(s, waiting_for(now(default_)));
    }
    add(s ? s : default_, std::move(w));
  }
  point here(const std::shared_ptr<stream>& s) {
    const std::lock_guard lock(mutex_);
    return now(s ? s : default_);
  }
  /// The host waits. It sleeps first, so that its other threads get ahead.
  void wait(const point& p) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const std::lock_guard lock(mutex_);
    run(p);
  }
  /// Work that ends when the work before this point is done.
  work waiting_for(const point& p) {
    return [this, p] { run(p); };
  }
  void wait_for_all() {
    const std::lock_guard lock(mutex_);
    run(now(default_));
    for (const auto& s : streams_) run(now(s));
  }

  void add_pool(pool* p) {
    const std::lock_guard lock(mutex_);
    pools_.insert(p);
  }
  void remove_pool(pool* p) {
    const std::lock_guard lock(mutex_);
    pools_.erase(p);
    std::erase_if(pool_of_, [p](const auto& entry) { return entry.second == p; });
  }
  /// Allocates at once, whatever the stream.
  void* allocate(std::size_t bytes, pool* from = nullptr) {
    const std::lock_guard lock(mutex_);
    const std::size_t before = arena_.held();
    void* const p = arena_.allocate(bytes);
    if (!p || !from) return p;
    from->kept -= std::min(from->kept, arena_.held() - before);
    pool_of_[p] = from;
    return p;
  }
  void release(void* p) {
    const std::lock_guard lock(mutex_);
    const std::size_t before = arena_.held();
    arena_.release(p);
    if (const auto from = pool_of_.extract(p)) from.mapped()->kept += before - arena_.held();
  }
  bool holds(const void* p, std::size_t bytes) const {
    const std::lock_guard lock(mutex_);
    return arena_.holds(p, bytes);
  }
  std::pair<const char*, const char*> allocation_of(const void* p) const {
    const std::lock_guard lock(mutex_);
    return arena_.allocation_of(p);
  }
  bool is_inside(const void* p) const { return arena_.is_inside(p); }
  /// Whether copies from pageable host memory read it when the stream gets there.
  bool reads_pageable_memory() const { return schedule_ == schedule::mixed; }
  /// Bytes that are allocated or kept by a pool.
  std::size_t held() const {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = arena_.held();
    for (const pool* p : pools_) bytes += p->kept;
    return bytes;
  }

  void* allocate_pinned(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    void* const p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    pinned_[static_cast<const char*>(p)] = bytes;
    return p;
  }
  void release_pinned(void* p) {
    const std::lock_guard lock(mutex_);
    require(pinned_.erase(static_cast<const char*>(p)) == 1, "what is freed is not page-locked memory");
    std::free(p);
  }
  bool is_pinned(const void* p) const {
    const std::lock_guard lock(mutex_);
    const auto* const c = static_cast<const char*>(p);
    auto found = pinned_.upper_bound(c);
    return found != pinned_.begin() && (--found, c < found->first + found->second);
  }

  /// Calls f(block) for all blocks of a launch, the first or the last one first.
  template <class F>
  void each_block(std::int64_t blocks, const F& f) const {
    for (std::int64_t i = 0; i < blocks; ++i) f(schedule_ == schedule::early ? i : blocks - 1 - i);
  }

 private:
  device() {
    if (schedule_ != schedule::late) always_open_.emplace(arena_);
  }

  void add(const std::shared_ptr<stream>& s, work w) {
    s->open.push_back(std::move(w));
    ++s->given;
    if (!s->late) run(now(s));
  }
  static point now(const std::shared_ptr<stream>& s) { return {s, s->given}; }

  void run(const point& p) {
    if (p.of->done >= p.number) return;
    const device_arena::open_door door(arena_);
    while (p.of->done < p.number) {
      const work next = std::move(p.of->open.front());
      p.of->open.pop_front();
      ++p.of->done;
      next();
    }
  }

  const schedule schedule_ = chosen_schedule();
  mutable std::recursive_mutex mutex_;
  device_arena arena_;
  std::optional<device_arena::open_door>
      always_open_;  // streams that work at once would open and close it all the time
  std::map<const char*, std::size_t> pinned_;
  std::set<pool*> pools_;
  std::map<void*, pool*> pool_of_;  // by allocation
  std::vector<std::shared_ptr<stream>> streams_;
  std::shared_ptr<stream> default_ = std::make_shared<stream>(stream{.open = {}, .late = schedule_ != schedule::early});
  std::size_t made_ = 0;
};

}  // namespace qkgeom::emulated
