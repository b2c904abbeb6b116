// SPDX-License-Identifier: MIT
// Records who touched which bytes of a memory, and finds races.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "qkgeom/core/config.hpp"

namespace qkgeom::ptx {

/// A thread, and the number of barriers that its block has passed.
struct place_in_time {
  index_t block = 0;
  int thread = 0, barriers = 0;
};

enum class access { read, write, atomic };

/// Two accesses race if one of them writes, not both are atomic, and no barrier of one block stands between them. A
/// write that changes nothing counts as none.
class watch {
 public:
  /// `granule`: bytes of the smallest value in the memory. `of_a_block`: each block has such a memory of its own.
  watch(int granule, bool of_a_block) : granule_(static_cast<std::uint64_t>(granule)), of_a_block_(of_a_block) {}

  /// Notes an access. Returns what is wrong with it, or null.
  const std::string* touch(std::uint64_t address, int bytes, const place_in_time& who, access how, bool changes) {
    for (std::uint64_t g = address / granule_; g * granule_ < address + static_cast<std::uint64_t>(bytes); ++g)
      if (!note(at(g), who, how, changes)) return &wrong_;
    return nullptr;
  }

  /// Marks bytes that an open asynchronous copy will write: until it is done, nobody may touch them.
  void promise(std::uint64_t address, int bytes, bool open) {
    for (std::uint64_t g = address / granule_; g * granule_ < address + static_cast<std::uint64_t>(bytes); ++g)
      at(g).promised = open;
  }

 private:
  static constexpr int several = -1;
  struct seen {
    index_t block = -1;
    int thread = several, barriers = -1;
  };
  struct mark {
    seen wrote, read;
    bool atomically = false, read_by_blocks = false, promised = false;
  };
  static constexpr std::uint64_t page = 1024;

  mark& at(std::uint64_t granule) {
    if (granule / page != last_ || !marks_) {
      auto& found = pages_[last_ = granule / page];
      if (!found) found = std::make_unique<std::array<mark, page>>();
      marks_ = found.get();
    }
    return (*marks_)[granule % page];
  }

  bool note(mark& m, const place_in_time& who, access how, bool changes) {
    if (of_a_block_ && m.wrote.block != who.block && m.read.block != who.block) m = {};
    if (m.promised) return wrong_ = "a copy that nobody has waited for writes there", false;
    const auto meets = [&](const seen& s) {
      return s.block >= 0 && (s.block != who.block || (s.barriers == who.barriers && s.thread != who.thread));
    };
    if (how == access::read) {
      if (meets(m.wrote)) return refuse(m.wrote, "writes there");
      m.read_by_blocks |= m.read.block >= 0 && m.read.block != who.block;
      const bool again = m.read.block == who.block && m.read.barriers == who.barriers && m.read.thread != who.thread;
      m.read = {who.block, again ? several : who.thread, who.barriers};
      return true;
    }
    if (!changes) return true;
    if (meets(m.wrote) && !(m.atomically && how == access::atomic)) return refuse(m.wrote, "writes there too");
    if (m.read_by_blocks || meets(m.read)) return refuse(m.read, "reads there");
    m.wrote = {who.block, who.thread, who.barriers};
    m.atomically = how == access::atomic;
    return true;
  }
  bool refuse(const seen& other, const std::string& does) {
    wrong_ = (other.thread == several ? "a thread" : "thread " + std::to_string(other.thread)) + " of block " +
             std::to_string(other.block) + " " + does + ", with no barrier between";
    return false;
  }

  std::uint64_t granule_;
  bool of_a_block_;
  std::unordered_map<std::uint64_t, std::unique_ptr<std::array<mark, page>>> pages_;
  std::uint64_t last_ = 0;
  std::array<mark, page>* marks_ = nullptr;
  std::string wrong_;
};

}  // namespace qkgeom::ptx
