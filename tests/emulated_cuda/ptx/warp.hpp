// SPDX-License-Identifier: MIT
// The state that instructions read and write: the rows of a warp and its memories.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <vector>

#include "qkgeom/core/error.hpp"
#include "tests/emulated_cuda/ptx/interpreter.hpp"
#include "tests/emulated_cuda/ptx/watch.hpp"

namespace qkgeom::ptx {

/// Generic addresses of shared and of local memory begin here.
constexpr std::uint64_t shared_window = std::uint64_t{1} << 60, local_window = std::uint64_t{1} << 61;

template <class T>
T from_bits(std::uint64_t x) {
  T value;
  std::memcpy(&value, &x, sizeof value);
  return value;
}
template <class T>
std::uint64_t to_bits(T value) {
  std::uint64_t x = 0;
  std::memcpy(&x, &value, sizeof value);
  return x;
}

template <class F>
void for_each_lane(lanes of, const F& f) {
  if (of == all_lanes) {
    for (int l = 0; l < warp_lanes; ++l) f(l);
  } else {
    for (; of != 0; of &= of - 1) f(std::countr_zero(of));
  }
}

/// What all warps of a launch share.
struct launched {
  const kernel& program;
  const grid& of;
  const find_allocation& find;
  watch global;
  std::vector<allocation> last_allocation;  // of each instruction's last access
};

/// What all warps of a block share. Blocks run one after the other.
struct running_block {
  explicit running_block(const kernel& k, const grid& g)
      : shared((k.static_shared_bytes + 15) / 16 * 16 + g.dynamic_shared_bytes), shared_watch(k.granule, true) {}
  std::vector<char> shared;
  watch shared_watch;
  index_t number = 0;
  int barriers = 0;
};

class warp {
 public:
  warp(launched& in, running_block& block, int number);

  /// Call it before each block.
  void start();
  /// Runs until its threads wait at a barrier or have ended.
  void go_on();
  bool has_ended() const { return live_ == 0; }

  std::uint64_t* row(int r) { return &rows_[static_cast<std::size_t>(r) * warp_lanes]; }

  /// An access of a lane at an address of `where`.
  void read(const instruction& i, int lane, memory where, std::uint64_t address, void* to, int bytes);
  void write(const instruction& i, int lane, memory where, std::uint64_t address, const void* from, int bytes);
  /// Calls f(p) with a pointer to the value there.
  template <class F>
  void atomically(const instruction& i, int lane, memory where, std::uint64_t address, int bytes, const F& f) {
    const place at = find(i, lane, where, address, bytes);
    note(i, lane, at, bytes, access::atomic, true);
    f(at.data);
  }

  /// Asynchronous copies from global to shared memory are done when their thread waits for their group.
  void copy_later(const instruction& i, int lane, std::uint64_t to, std::uint64_t from, int bytes, int given);
  void end_group(int lane) { copies_[lane].emplace_back(); }
  void wait_for_groups(const instruction& i, int lane, int but_last);

  template <class... Parts>
  [[noreturn]] void refuse(const instruction& i, int lane, const Parts&... why) const {
    fail(in_.program.name, ", line ", i.line, " of its PTX (", i.text, "), block ", block_.number, ", thread ",
         number_ * warp_lanes + lane, ": ", why...);
  }

 private:
  struct place {
    memory where;
    char* data;
  };
  struct copy {
    std::uint64_t to, from;
    int bytes, given;
  };

  place find(const instruction& i, int lane, memory where, std::uint64_t address, int bytes);
  void note(const instruction& i, int lane, const place& at, int bytes, access how, bool changes);
  lanes pick(int& pc);
  void move(lanes who, int to);

  launched& in_;
  running_block& block_;
  const int number_;
  const lanes threads_;  // fewer than 32 in the last warp of some blocks
  std::vector<std::uint64_t> rows_;
  std::vector<char> local_;  // one lane's after another's
  lanes live_ = 0, waiting_ = 0;
  int common_pc_ = 0;  // of all lanes, unless they have diverged
  bool diverged_ = false;
  std::array<int, warp_lanes> pc_{};
  std::array<std::deque<std::vector<copy>>, warp_lanes> copies_;  // groups of each lane, the last one open
};

}  // namespace qkgeom::ptx
