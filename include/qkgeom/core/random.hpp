// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Returns 128 random bits of a counter and a key by Philox4x32-10 (Salmon et al., 2011), the same on every machine.
QKGEOM_HD inline std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                         std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// Use of a stream of draws. It is part of the stream's key, so that two uses never share bits. Only `permutation` has
/// two uses, rows (stats/resampling.hpp) and positions (geometry/complement.hpp): they permute different data, and
/// separate numbers would change published results.
enum class draw : std::uint32_t {
  query_token = 1,
  key_token = 2,
  head = 3,
  query_subset = 4,
  pair = 5,
  planted = 6,
  permutation = 7,
  fit_row = 8,
  fit_dimension = 9,
  score_pair = 10,
  decay_pair = 11,
  sign_flip = 12,
  probe = 13,
  stretched_position = 14,
  stationary_key = 15,
  softmax_query = 16,
  grip_query = 17,
  grip_distance = 18,
  plane = 19
};

/// A stateless stream of random numbers: entry i depends only on (seed, document, layer, use, i).
struct random_stream {
  std::uint64_t seed = 0;
  std::uint32_t document = 0;
  std::uint32_t layer = 0;
  draw use = draw::query_token;

  QKGEOM_HD std::array<std::uint32_t, 4> bits(std::uint64_t i) const {
    return philox4x32({static_cast<std::uint32_t>(i),
                       static_cast<std::uint32_t>(i >> 32) ^ (static_cast<std::uint32_t>(use) << 24), document, layer},
                      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  }
  /// Returns a number uniform on [0, 1) with 53 bits.
  QKGEOM_HD double uniform(std::uint64_t i) const {
    const auto b = bits(i);
    return static_cast<double>((std::uint64_t{b[0]} << 21) ^ (b[1] >> 11)) * 0x1p-53;
  }
  /// Returns a standard normal number (Box and Muller), equal on all machines up to the rounding of log and cos.
  double normal(std::uint64_t i) const {
    const double u = 1.0 - uniform(2 * i), v = uniform(2 * i + 1);
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
  }
  /// Returns a number uniform on {0, ..., n - 1}; the bias is below n / 2^64.
  QKGEOM_HD std::uint64_t below(std::uint64_t i, std::uint64_t n) const {
    const auto b = bits(i);
    const std::uint64_t x = (std::uint64_t{b[2]} << 32) | b[3];
#if defined(__CUDA_ARCH__)
    return __umul64hi(x, n);
#else
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(x) * n) >> 64);
#endif
  }
};

}  // namespace qkgeom
