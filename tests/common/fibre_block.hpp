// SPDX-License-Identifier: MIT
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "qkgeom/core/error.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace qkgeom::test {

/// Which of the threads that could go on does.
enum class thread_order { first_comes_first, last_comes_first };

/// The threads of a device's block as fibres of one thread of the host. Each runs as far as it can before another does,
/// so that of two threads between the same two barriers either is done before the other begins, by the order: what
/// depends on it shows as a difference between the two orders, and a read before the write as what was there before.
class fibre_block {
 public:
  static constexpr int warp = 32;

  explicit fibre_block(int threads)
      : fibres_(static_cast<std::size_t>(threads)), at_(fibres_.size(), place::done), warps_(fibres_.size() / warp) {
    require(threads > 0 && threads % warp == 0, "a block of ", threads, " threads is not made of warps");
    for (auto& f : fibres_) prepare(f);
  }
  fibre_block(const fibre_block&) = delete;
  fibre_block& operator=(const fibre_block&) = delete;

  int threads() const { return static_cast<int>(fibres_.size()); }

  /// body(t) for every thread t. Throws what a body throws, and `error` where threads wait for one that does not come;
  /// the block is of no use after that.
  void run(thread_order order, const std::function<void(int)>& body) {
    body_ = &body;
    std::fill(at_.begin(), at_.end(), place::ready);
    thrown_ = nullptr;
    for (int t = next(order); t >= 0; t = next(order)) {
      resume(t);
      if (thrown_) std::rethrow_exception(thrown_);
      release(t);
    }
    require(all(at_.begin(), at_.end(), place::done), "threads of a block wait for one that does not come");
  }

  // What a body may call.

  void wait_for_block() { leave(place::at_block); }

  /// What each lane of the caller's warp gives, by lane.
  template <class T>
  class of_lanes {
   public:
    explicit of_lanes(const std::byte* from) : from_(from) {}
    T operator[](int lane) const {
      T x;
      std::memcpy(&x, from_ + lane * most_exchanged, sizeof(T));
      return x;
    }

   private:
    const std::byte* from_;
  };
  /// Waits for all lanes of the warp, as *_sync does. Valid until the warp's next exchange but one.
  template <class T>
  of_lanes<T> exchange(const T& mine) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= most_exchanged);
    fibre& f = fibres_[running_];
    std::byte* const all = warps_[running_ / warp].given[f.exchanges++ % 2].data();
    std::memcpy(all + running_ % warp * most_exchanged, &mine, sizeof(T));
    leave(place::at_warp);
    return of_lanes<T>(all);
  }

 private:
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10;
  static constexpr int most_exchanged = 32;

  enum class place : unsigned char { ready, at_block, at_warp, done };
  using jump_buffer = std::array<void*, 5>;  // what __builtin_setjmp fills
  struct fibre {
    ucontext_t context;  // where it begins
    bool begun = false;
    jump_buffer stopped{};
    std::unique_ptr<char[]> stack;
    unsigned exchanges = 0;
    void* fake_stack = nullptr;
  };
  struct warp_memory {
    std::array<std::array<std::byte, warp * most_exchanged>, 2> given;
  };

  template <class Place>
  static bool all(Place first, Place last, place where) {
    return std::all_of(first, last, [where](place p) { return p == where; });
  }

  /// A thread that can go on; -1: none.
  int next(thread_order order) const {
    constexpr int ready = static_cast<int>(place::ready);
    const void* const found = order == thread_order::first_comes_first ? memchr(at_.data(), ready, at_.size())
                                                                       : memrchr(at_.data(), ready, at_.size());
    return found ? static_cast<int>(static_cast<const place*>(found) - at_.data()) : -1;
  }

  /// Thread t has stopped somewhere: if it was the last one that was waited for, all go on.
  void release(int t) {
    const place where = at_[t];
    if (where == place::done) return;
    const bool warps = where == place::at_warp;
    const auto first = at_.begin() + (warps ? t / warp * warp : 0), last = warps ? first + warp : at_.end();
    if (all(first, last, where)) std::fill(first, last, place::ready);
  }

  // From one place in the code to another: swapcontext would also ask the system for the mask of signals each time, and
  // under AddressSanitizer forget the whole stack, which took nearly all of a test's time. Callers may not know which
  // registers these functions leave alone, since other fibres use all of them meanwhile.
#if defined(__clang__)
#define QKGEOM_SWITCHES_STACKS __attribute__((noinline, no_sanitize("address"))) static
#else
#define QKGEOM_SWITCHES_STACKS __attribute__((noipa, no_sanitize("address"))) static
#endif
  QKGEOM_SWITCHES_STACKS void jump(jump_buffer& to) { __builtin_longjmp(to.data(), 1); }
  QKGEOM_SWITCHES_STACKS void go(jump_buffer& from, jump_buffer& to) {
    if (__builtin_setjmp(from.data()) == 0) jump(to);
  }
  QKGEOM_SWITCHES_STACKS void start(jump_buffer& from, const ucontext_t& to) {
    if (__builtin_setjmp(from.data()) == 0) setcontext(&to);
  }
#undef QKGEOM_SWITCHES_STACKS

  void resume(int t) {
    running_ = t;
    running_block() = this;
    fibre& f = fibres_[t];
#if defined(__SANITIZE_ADDRESS__)
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, f.stack.get(), stack_bytes);
#endif
    if (f.begun) {
      go(caller_, f.stopped);
    } else {
      f.begun = true;
      start(caller_, f.context);
    }
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }

  void leave(place where) {
    fibre& f = fibres_[running_];
    at_[running_] = where;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&f.fake_stack, caller_stack_, caller_stack_bytes_);
#endif
    go(f.stopped, caller_);
    arrive(f);
  }

  void arrive([[maybe_unused]] const fibre& f) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(f.fake_stack, &caller_stack_, &caller_stack_bytes_);
#endif
  }

  static fibre_block*& running_block() {
    thread_local fibre_block* block = nullptr;
    return block;
  }

  static void prepare(fibre& f) {
    f.stack.reset(new char[stack_bytes]);
    require(getcontext(&f.context) == 0, "getcontext failed");
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = stack_bytes;
    f.context.uc_link = nullptr;
    makecontext(&f.context, &fibre_block::begin, 0);
  }
  /// What a fibre does: a body a run, for ever.
  static void begin() {
    fibre_block& block = *running_block();
    const int t = block.running_;
    block.arrive(block.fibres_[t]);
    for (;;) {
      try {
        (*block.body_)(t);
      } catch (...) {
        block.thrown_ = std::current_exception();
      }
      block.leave(place::done);
    }
  }

  std::vector<fibre> fibres_;
  std::vector<place> at_;  // (threads)
  std::vector<warp_memory> warps_;
  const std::function<void(int)>* body_ = nullptr;
  std::exception_ptr thrown_;
  jump_buffer caller_{};
  int running_ = -1;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
};

}  // namespace qkgeom::test
