// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "qkgeom/core/random.hpp"

namespace qkgeom::fuzz {

/// Draws below a bound, one after another.
class dice {
 public:
  explicit dice(std::uint64_t seed) : stream_{.seed = seed, .use = draw::head} {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(stream_.below(next_++, n)); }

 private:
  random_stream stream_;
  std::uint64_t next_ = 0;
};

/// A damaged copy: cut short, made longer, bytes changed or removed, pieces copied elsewhere, numbers made extreme.
/// Half of the places lie within the first `head` bytes, where lengths and names are.
inline std::string damaged(std::string bytes, std::size_t head, dice& die) {
  const auto place = [&] { return die.below(die.below(2) ? std::min(head, bytes.size()) : bytes.size()); };
  const std::size_t changes = 1 + die.below(3);
  for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
    const std::size_t at = place();
    switch (die.below(7)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.append(1 + die.below(64), static_cast<char>(die.below(256)));
        break;
      case 2:
        bytes[at] = static_cast<char>(die.below(256));
        break;
      case 3:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << die.below(8)));
        break;
      case 4:
        bytes.erase(at, 1 + die.below(16));
        break;
      case 5:
        bytes.insert(place(), bytes.substr(at, 1 + die.below(80)));
        break;
      default: {
        static const char* const values[] = {
            "0", "-1", "9223372036854775807", "18446744073709551615", "1e999", "null", "[]", "\"\""};
        std::size_t start = at;
        while (start < bytes.size() && !std::isdigit(static_cast<unsigned char>(bytes[start]))) ++start;
        std::size_t end = start;
        while (end < bytes.size() && std::isdigit(static_cast<unsigned char>(bytes[end]))) ++end;
        bytes.replace(start, end - start, values[die.below(std::size(values))]);
      }
    }
  }
  return bytes;
}

}  // namespace qkgeom::fuzz
