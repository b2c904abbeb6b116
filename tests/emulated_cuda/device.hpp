// SPDX-License-Identifier: MIT
// A CUDA device emulated by the host, so that tests without a GPU run the code that calls CUDA: allocations, copies,
// launches, products and waits. The headers beside this one take the place of CUDA's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace qkgeom::emulated {

/// When streams work: at once (early), when somebody waits for them and no further than needed (late, the default), or
/// every second one late (mixed; then the device also reads pageable memory). QKGEOM_EMULATED_CUDA chooses. A result
/// that depends on it shows a missing wait.
enum class schedule { early, late, mixed };
schedule chosen_schedule();

/// A stream-ordered pool. It keeps all that is freed.
struct pool {
  std::size_t kept = 0;  ///< bytes
};

using work = std::function<void()>;

/// Works, done in the order in which they were given.
struct stream;

/// Some work of a stream and all before it.
struct point {
  std::shared_ptr<stream> of;
  std::uint64_t number = 0;
};

/// A device. Only a stream's work may touch its memory: an access by the host is a segmentation fault. It holds NaN
/// when it is allocated and when it is freed. Under AddressSanitizer everything but the allocations is poisoned.
class device {
 public:
  static constexpr std::size_t total_bytes = std::size_t{8} << 30;

  static device& the();

  std::shared_ptr<stream> make_stream(bool waits_for_default);
  void end(const std::shared_ptr<stream>& s);

  /// Gives work to a stream; null: the default one. It and all blocking streams wait for each other.
  void give(const std::shared_ptr<stream>& s, work w);
  point here(const std::shared_ptr<stream>& s) const;
  /// The host waits. It sleeps first, so that its other threads get ahead.
  void wait(const point& p);
  /// Work that ends when the work before this point is done.
  work waiting_for(const point& p);
  void wait_for_all();

  void add_pool(pool* p);
  void remove_pool(pool* p);
  /// Allocates at once, whatever the stream. Null when there is no room.
  void* allocate(std::size_t bytes, pool* from = nullptr);
  void release(void* p);
  /// Whether one allocation holds all these bytes.
  bool holds(const void* p, std::size_t bytes) const;
  bool is_inside(const void* p) const;
  /// Whether copies from pageable host memory read it when the stream gets there.
  bool reads_pageable_memory() const;
  /// Bytes that are allocated or kept by a pool.
  std::size_t held() const;

  void* allocate_pinned(std::size_t bytes);
  void release_pinned(void* p);
  bool is_pinned(const void* p) const;

  /// Calls f(block) for all blocks of a launch, the first or the last one first.
  template <class F>
  void each_block(std::int64_t blocks, const F& f) const {
    for (std::int64_t i = 0; i < blocks; ++i) f(schedule_ == schedule::early ? i : blocks - 1 - i);
  }

 private:
  struct state;

  device();
  ~device();

  const schedule schedule_ = chosen_schedule();
  const std::unique_ptr<state> state_;
};

}  // namespace qkgeom::emulated
