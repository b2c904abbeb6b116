// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

namespace detail {

using sha256_state = std::array<std::uint32_t, 8>;

/// Adds `blocks` blocks of 64 bytes to the state.
void add_blocks_portable(sha256_state& state, const std::byte* p, std::size_t blocks);

#if defined(__x86_64__)
/// Returns whether the CPU has instructions for SHA-256.
bool cpu_has_sha();

/// Adds blocks with these instructions, four rounds at a time.
void add_blocks_sha(sha256_state& state, const std::byte* p, std::size_t blocks);
#endif

}  // namespace detail

/// SHA-256 (FIPS 180-4) of bytes that are added piece by piece.
class sha256 {
 public:
  sha256& add(std::span<const std::byte> bytes);
  sha256& add(std::string_view text) { return add(std::as_bytes(std::span(text.data(), text.size()))); }
  /// Returns the digest of the bytes so far, as 64 hexadecimal digits.
  std::string hex() const;

 private:
  detail::sha256_state state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_{};
  std::uint64_t size_ = 0;
};

}  // namespace qkgeom
