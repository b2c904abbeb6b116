// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "qkgeom/io/detail/sha256_blocks.hpp"
#include "qkgeom/io/sha256.hpp"

namespace qkgeom {

QKGEOM_INLINE sha256& sha256::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return *this;
  const std::size_t filled = size_ % 64;
  size_ += bytes.size();
  if (filled > 0) {
    const std::size_t n = std::min(64 - filled, bytes.size());
    std::memcpy(rest_.data() + filled, bytes.data(), n);
    bytes = bytes.subspan(n);
    if (filled + n < 64) return *this;
    detail::add_blocks(state_, rest_.data(), 1);
  }
  detail::add_blocks(state_, bytes.data(), bytes.size() / 64);
  bytes = bytes.subspan(bytes.size() / 64 * 64);
  if (!bytes.empty()) std::memcpy(rest_.data(), bytes.data(), bytes.size());
  return *this;
}

QKGEOM_INLINE std::string sha256::hex() const {
  sha256 last = *this;
  const std::uint64_t bits = size_ * 8;
  std::array<std::byte, 72> padding{std::byte{0x80}};
  const std::size_t zeros = (119 - size_ % 64) % 64;
  for (std::size_t i = 0; i < 8; ++i) padding[1 + zeros + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  last.add(std::span(padding).first(zeros + 9));
  std::string text;
  for (const std::uint32_t word : last.state_)
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[(word >> shift) & 15];
  return text;
}

}  // namespace qkgeom
