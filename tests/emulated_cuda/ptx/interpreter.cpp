// SPDX-License-Identifier: MIT
#include "tests/emulated_cuda/ptx/interpreter.hpp"

#include <algorithm>
#include <memory>
#include <tuple>

#include "tests/emulated_cuda/ptx/warp.hpp"

namespace qkgeom::ptx {
namespace {

lanes first_lanes(int n) { return n >= warp_lanes ? all_lanes : (lanes{1} << n) - 1; }

std::uint64_t special_value(std::string_view name, const grid& g, index_t block, int thread) {
  if (name == "%tid.x") return to_bits(thread);
  if (name == "%ntid.x") return to_bits(g.threads);
  if (name == "%ctaid.x") return to_bits(block);
  if (name == "%nctaid.x") return to_bits(g.blocks);
  if (name == "%laneid") return to_bits(thread % warp_lanes);
  fail("PTX: ", name, " is not known here");
}

}  // namespace

warp::warp(launched& in, running_block& block, int number)
    : in_(in),
      block_(block),
      number_(number),
      threads_(first_lanes(in.of.threads - number * warp_lanes)),
      rows_(static_cast<std::size_t>(in.program.rows) * warp_lanes, ~std::uint64_t{0}),
      local_(in.program.local_bytes * warp_lanes) {
  for (const auto& [r, value] : in.program.numbers) std::fill_n(row(r), warp_lanes, value);
}

void warp::start() {
  live_ = threads_;
  waiting_ = 0;
  diverged_ = false;
  common_pc_ = 0;
  std::fill(local_.begin(), local_.end(), '\xff');
  for (auto& groups : copies_) groups.assign(1, {});
  for (const auto& [r, name] : in_.program.specials)
    for (int l = 0; l < warp_lanes; ++l)
      row(r)[l] = special_value(name, in_.of, block_.number, number_ * warp_lanes + l);
}

/// The lanes at the lowest instruction go first, so that diverged lanes meet again.
lanes warp::pick(int& pc) {
  pc = common_pc_;
  if (!diverged_) return live_;
  const auto at = [&](int l) { return pc_[l]; };
  const lanes free = live_ & ~waiting_, of = free != 0 ? free : live_;
  pc = at(std::countr_zero(of));
  for_each_lane(of, [&](int l) { pc = std::min(pc, at(l)); });
  lanes here = 0;
  for_each_lane(of, [&](int l) { here |= lanes{at(l) == pc} << l; });
  // Lanes that wait there for others go on with them.
  for_each_lane(waiting_, [&](int l) { here |= lanes{at(l) == pc} << l; });
  if (here == live_) {
    diverged_ = false;
    common_pc_ = pc;
    waiting_ = 0;
  }
  return here;
}

void warp::move(lanes who, int to) {
  if (!diverged_ && who == live_) {
    common_pc_ = to;
    return;
  }
  if (!diverged_) pc_.fill(common_pc_);
  diverged_ = true;
  for_each_lane(who, [&](int l) { pc_[l] = to; });
}

void warp::go_on() {
  using kind = instruction::kind;
  int pc = 0;
  while (live_ != 0) {
    lanes here = pick(pc), doing = here;
    const instruction& i = in_.program.code.at(static_cast<std::size_t>(pc));
    if (i.guard >= 0) {
      const std::uint64_t* const guard = row(i.guard);
      for_each_lane(here, [&](int l) { doing &= ~(lanes{(guard[l] != 0) == i.guard_is_not} << l); });
    }
    if (i.is == kind::together || i.is == kind::barrier) {
      if (here != threads_) {  // lanes that have ended are missing too
        if ((live_ & ~waiting_ & ~here) == 0) refuse(i, std::countr_zero(here), "missed by others of its warp");
        waiting_ |= here;
        continue;
      }
      if (doing != 0 && doing != here) refuse(i, std::countr_zero(here), "missed by others of its warp");
    }
    if (i.is == kind::end) {
      live_ &= ~doing;
      here &= ~doing;
    } else if (i.is == kind::branch) {
      if (doing != 0) move(doing, i.target);
      here &= ~doing;
    } else if (i.run != nullptr && doing != 0) {
      i.run(*this, i, doing);
    }
    if (here != 0) move(here, pc + 1);
    if (i.is == kind::barrier && doing != 0) return;
  }
}

warp::place warp::find(const instruction& i, int lane, memory where, std::uint64_t address, int bytes) {
  if (where == memory::generic) {
    where = address >= local_window ? memory::local : address >= shared_window ? memory::shared : memory::global;
    address -= where == memory::local ? local_window : where == memory::shared ? shared_window : 0;
  }
  const auto n = static_cast<std::uint64_t>(bytes);
  if (address % n != 0) refuse(i, lane, "address ", address, " is no multiple of ", bytes);
  if (where == memory::global) {
    auto& [begin, end] = in_.last_allocation[&i - in_.program.code.data()];
    auto* const p = reinterpret_cast<char*>(address);  // a device's address is the host's here
    if (p < begin || p + n > end) std::tie(begin, end) = in_.find(p);
    if (p < begin || p + n > end) refuse(i, lane, "no allocation holds ", bytes, " bytes at ", static_cast<void*>(p));
    return {where, p};
  }
  char* const data = where == memory::shared  ? block_.shared.data()
                     : where == memory::local ? local_.data() + in_.program.local_bytes * static_cast<std::size_t>(lane)
                                              : const_cast<char*>(static_cast<const char*>(in_.of.parameters));
  const std::size_t size = where == memory::shared  ? block_.shared.size()
                           : where == memory::local ? in_.program.local_bytes
                                                    : in_.program.parameter_bytes;
  if (address + n > size) refuse(i, lane, "bytes ", address, " to ", address + n, " are beyond ", size);
  return {where, data + address};
}

void warp::note(const instruction& i, int lane, const place& at, int bytes, access how, bool changes) {
  if (at.where != memory::global && at.where != memory::shared) return;
  const place_in_time now{block_.number, number_ * warp_lanes + lane, block_.barriers};
  const std::string* const wrong =
      at.where == memory::global ? in_.global.touch(reinterpret_cast<std::uint64_t>(at.data), bytes, now, how, changes)
                                 : block_.shared_watch.touch(static_cast<std::uint64_t>(at.data - block_.shared.data()),
                                                             bytes, now, how, changes);
  if (wrong != nullptr) refuse(i, lane, *wrong);
}

void warp::read(const instruction& i, int lane, memory where, std::uint64_t address, void* to, int bytes) {
  const place at = find(i, lane, where, address, bytes);
  note(i, lane, at, bytes, access::read, false);
  std::memcpy(to, at.data, static_cast<std::size_t>(bytes));
}

void warp::write(const instruction& i, int lane, memory where, std::uint64_t address, const void* from, int bytes) {
  const auto n = static_cast<std::size_t>(bytes);
  const place at = find(i, lane, where, address, bytes);
  note(i, lane, at, bytes, access::write, std::memcmp(at.data, from, n) != 0);
  std::memcpy(at.data, from, n);
}

void warp::copy_later(const instruction& i, int lane, std::uint64_t to, std::uint64_t from, int bytes, int given) {
  const place into = find(i, lane, memory::shared, to, bytes);
  if (given > 0) note(i, lane, find(i, lane, memory::global, from, bytes), given, access::read, false);
  note(i, lane, into, bytes, access::write, true);
  block_.shared_watch.promise(to, bytes, true);
  copies_[lane].back().push_back({to, from, bytes, given});
}

void warp::wait_for_groups(const instruction& i, int lane, int but_last) {
  auto& groups = copies_[lane];
  for (; static_cast<int>(groups.size()) - 1 > but_last; groups.pop_front())
    for (const copy& c : groups.front()) {
      block_.shared_watch.promise(c.to, c.bytes, false);
      char* const to = find(i, lane, memory::shared, c.to, c.bytes).data;
      note(i, lane, {memory::shared, to}, c.bytes, access::write, true);
      std::memset(to, 0, static_cast<std::size_t>(c.bytes));
      std::memcpy(to, reinterpret_cast<const char*>(c.from), static_cast<std::size_t>(c.given));
    }
}

void run(const kernel& k, const grid& g, const find_allocation& global) {
  require(k.most_threads == 0 || g.threads <= k.most_threads, k.name, " takes ", k.most_threads,
          " threads a block, not ", g.threads);
  require(g.blocks <= 0x7fffffff, k.name, ": a launch has at most 2^31 - 1 blocks, not ", g.blocks);
  launched all{.program = k,
               .of = g,
               .find = global,
               .global = watch(k.granule, false),
               .last_allocation = std::vector<allocation>(k.code.size())};
  running_block block(k, g);
  std::vector<std::unique_ptr<warp>> warps;
  for (int w = 0; w * warp_lanes < g.threads; ++w) warps.push_back(std::make_unique<warp>(all, block, w));
  for (index_t n = 0; n < g.blocks; ++n) {
    block.number = g.last_block_first ? g.blocks - 1 - n : n;
    std::fill(block.shared.begin(), block.shared.end(), '\xff');
    for (auto& w : warps) w->start();
    for (std::size_t ended = 0; ended < warps.size(); ++block.barriers) {
      ended = 0;
      for (auto& w : warps) {
        w->go_on();
        ended += w->has_ended();
      }
      require(ended == 0 || ended == warps.size(), k.name, ", block ", block.number,
              ": some warps wait at a barrier, others have ended");
    }
  }
}

}  // namespace qkgeom::ptx
