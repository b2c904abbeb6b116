// SPDX-License-Identifier: MIT
#include "tests/emulated_cuda/device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
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

schedule chosen_schedule() {
  const char* const said = std::getenv("QKGEOM_EMULATED_CUDA");
  const std::string_view name = said ? said : "late";
  require(name == "early" || name == "late" || name == "mixed", "QKGEOM_EMULATED_CUDA is early, late or mixed, not ",
          name);
  return name == "early" ? schedule::early : name == "late" ? schedule::late : schedule::mixed;
}

namespace {

/// The memory of a device.
class device_arena {
 public:
  device_arena()
      : base_(static_cast<char*>(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    require(base_ != MAP_FAILED, "no address space for a device");
    madvise(base_, bytes, MADV_HUGEPAGE);  // mprotect is faster
    poison(base_, bytes);
  }
  device_arena(const device_arena&) = delete;
  ~device_arena() { munmap(base_, bytes); }

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
  bool holds(const void* p, std::size_t n) const {
    if (!is_inside(p)) return false;
    const auto at = static_cast<std::size_t>(static_cast<const char*>(p) - base_);
    auto found = asked_.upper_bound(at);
    if (found == asked_.begin()) return false;
    --found;
    return at < found->first + found->second && at + n <= found->first + found->second;
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
  static constexpr std::size_t bytes = device::total_bytes, line = 256, page = std::size_t{2} << 20;

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

}  // namespace

struct stream {
  std::deque<work> open;
  std::uint64_t given = 0, done = 0;
  bool waits_for_default = false, late = true;
};

struct device::state {
  mutable std::recursive_mutex mutex;
  device_arena arena;
  std::optional<device_arena::open_door> always_open;  // streams that work at once would open and close it all the time
  std::map<const char*, std::size_t> pinned;
  std::set<pool*> pools;
  std::map<void*, pool*> pool_of;  // by allocation
  std::vector<std::shared_ptr<stream>> streams;
  std::shared_ptr<stream> by_default = std::make_shared<stream>();
  std::size_t made = 0;

  const std::shared_ptr<stream>& or_default(const std::shared_ptr<stream>& s) const { return s ? s : by_default; }
  void add(const std::shared_ptr<stream>& s, work w) {
    s->open.push_back(std::move(w));
    ++s->given;
    if (!s->late) run(now(s));
  }
  static point now(const std::shared_ptr<stream>& s) { return {s, s->given}; }
  void run(const point& p) {
    if (p.of->done >= p.number) return;
    const device_arena::open_door door(arena);
    while (p.of->done < p.number) {
      const work next = std::move(p.of->open.front());
      p.of->open.pop_front();
      ++p.of->done;
      next();
    }
  }
};

device& device::the() {
  static device one;
  return one;
}
device::device() : state_(std::make_unique<state>()) {
  state_->by_default->late = schedule_ != schedule::early;
  if (schedule_ != schedule::late) state_->always_open.emplace(state_->arena);
}
device::~device() = default;

std::shared_ptr<stream> device::make_stream(bool waits_for_default) {
  const std::lock_guard lock(state_->mutex);
  auto made = std::make_shared<stream>();
  made->waits_for_default = waits_for_default;
  made->late = schedule_ == schedule::late || (schedule_ == schedule::mixed && state_->made++ % 2 == 0);
  state_->streams.push_back(made);
  return made;
}
void device::end(const std::shared_ptr<stream>& s) {
  const std::lock_guard lock(state_->mutex);
  state_->run(state::now(s));
  state_->streams.erase(std::find(state_->streams.begin(), state_->streams.end(), s));
}

void device::give(const std::shared_ptr<stream>& s, work w) {
  const std::lock_guard lock(state_->mutex);
  if (!s) {
    for (const auto& other : state_->streams)
      if (other->waits_for_default) state_->add(state_->by_default, waiting_for(state::now(other)));
  } else if (s->waits_for_default) {
    state_->add(s, waiting_for(state::now(state_->by_default)));
  }
  state_->add(state_->or_default(s), std::move(w));
}
point device::here(const std::shared_ptr<stream>& s) const {
  const std::lock_guard lock(state_->mutex);
  return state::now(state_->or_default(s));
}
void device::wait(const point& p) {
  std::this_thread::sleep_for(std::chrono::microseconds(200));
  const std::lock_guard lock(state_->mutex);
  state_->run(p);
}
work device::waiting_for(const point& p) {
  return [this, p] { state_->run(p); };
}
void device::wait_for_all() {
  const std::lock_guard lock(state_->mutex);
  state_->run(state::now(state_->by_default));
  for (const auto& s : state_->streams) state_->run(state::now(s));
}

void device::add_pool(pool* p) {
  const std::lock_guard lock(state_->mutex);
  state_->pools.insert(p);
}
void device::remove_pool(pool* p) {
  const std::lock_guard lock(state_->mutex);
  state_->pools.erase(p);
  std::erase_if(state_->pool_of, [p](const auto& entry) { return entry.second == p; });
}
void* device::allocate(std::size_t bytes, pool* from) {
  const std::lock_guard lock(state_->mutex);
  auto& arena = state_->arena;
  const std::size_t before = arena.held();
  void* const p = arena.allocate(bytes);
  if (!p || !from) return p;
  from->kept -= std::min(from->kept, arena.held() - before);
  state_->pool_of[p] = from;
  return p;
}
void device::release(void* p) {
  const std::lock_guard lock(state_->mutex);
  auto& arena = state_->arena;
  const std::size_t before = arena.held();
  arena.release(p);
  if (const auto from = state_->pool_of.extract(p)) from.mapped()->kept += before - arena.held();
}
bool device::holds(const void* p, std::size_t bytes) const {
  const std::lock_guard lock(state_->mutex);
  return state_->arena.holds(p, bytes);
}
bool device::is_inside(const void* p) const { return state_->arena.is_inside(p); }
bool device::reads_pageable_memory() const { return schedule_ == schedule::mixed; }
std::size_t device::held() const {
  const std::lock_guard lock(state_->mutex);
  std::size_t held = state_->arena.held();
  for (const pool* p : state_->pools) held += p->kept;
  return held;
}

void* device::allocate_pinned(std::size_t bytes) {
  const std::lock_guard lock(state_->mutex);
  void* const p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  state_->pinned[static_cast<const char*>(p)] = bytes;
  return p;
}
void device::release_pinned(void* p) {
  const std::lock_guard lock(state_->mutex);
  require(state_->pinned.erase(static_cast<const char*>(p)) == 1, "what is freed is not page-locked memory");
  std::free(p);
}
bool device::is_pinned(const void* p) const {
  const std::lock_guard lock(state_->mutex);
  const auto* const c = static_cast<const char*>(p);
  auto found = state_->pinned.upper_bound(c);
  return found != state_->pinned.begin() && (--found, c < found->first + found->second);
}

}  // namespace qkgeom::emulated
