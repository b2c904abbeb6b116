// SPDX-License-Identifier: MIT
// Compiled without contraction to fused multiply-adds: results have the bits of ggml's reference.
#include "capture/gguf/block_types.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "qkgeom/core/error.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {
namespace {

/// The bytes of one block.
class block {
 public:
  explicit block(const std::byte* data) : data_(data) {}
  unsigned operator[](index_t i) const { return static_cast<unsigned>(data_[i]); }
  template <class T>
  T at(index_t i) const {
    T x;
    std::memcpy(&x, data_ + i, sizeof(T));
    return x;
  }
  float half(index_t i) const { return static_cast<float>(at<f16>(i)); }
  /// Returns nibble i of n bytes from `first`: low nibbles first, then high ones.
  int nibble(index_t first, index_t n, index_t i) const {
    return static_cast<int>(i < n ? (*this)[first + i] & 15u : (*this)[first + i - n] >> 4);
  }

 private:
  const std::byte* data_;
};

float real(int x) { return static_cast<float>(x); }

template <class T>
void plain(const std::byte* data, float* out) {
  *out = static_cast<float>(block(data).at<T>(0));
}

constexpr float iq4_values[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void q4_0(const std::byte* data, float* out) {
  const block b(data);
  for (index_t i = 0; i < 32; ++i) out[i] = b.half(0) * real(b.nibble(2, 16, i) - 8);
}
void q4_1(const std::byte* data, float* out) {
  const block b(data);
  for (index_t i = 0; i < 32; ++i) out[i] = b.half(0) * real(b.nibble(4, 16, i)) + b.half(2);
}
int fifth_bit(const block& b, index_t first, index_t i) {
  return static_cast<int>((b.at<std::uint32_t>(first) >> i & 1u) << 4);
}
void q5_0(const std::byte* data, float* out) {
  const block b(data);
  for (index_t i = 0; i < 32; ++i) out[i] = b.half(0) * real((b.nibble(6, 16, i) | fifth_bit(b, 2, i)) - 16);
}
void q5_1(const std::byte* data, float* out) {
  const block b(data);
  for (index_t i = 0; i < 32; ++i) out[i] = b.half(0) * real(b.nibble(8, 16, i) | fifth_bit(b, 4, i)) + b.half(2);
}
void q8_0(const std::byte* data, float* out) {
  const block b(data);
  for (index_t i = 0; i < 32; ++i) out[i] = b.half(0) * real(b.at<std::int8_t>(2 + i));
}
void iq4_nl(const std::byte* data, float* out) {
  const block b(data);
  for (index_t i = 0; i < 32; ++i) out[i] = b.half(0) * iq4_values[b.nibble(2, 16, i)];
}
void mxfp4(const std::byte* data, float* out) {
  const block b(data);
  const float scale = mxfp4_scale(b[0]);
  for (index_t i = 0; i < 32; ++i) out[i] = scale * mxfp4_values[b.nibble(1, 16, i)];
}

/// Returns the two bits of entry i of a block of 256; a byte holds four entries.
int two_bits(const block& b, index_t first, index_t i) {
  return static_cast<int>(b[first + 32 * (i / 128) + i % 32] >> 2 * (i / 32 % 4) & 3u);
}
void q2_k(const std::byte* data, float* out) {
  const block b(data);
  for (index_t i = 0; i < 256; ++i) {
    const unsigned scale = b[i / 16];
    const float d = b.half(80) * real(static_cast<int>(scale & 15u)),
                m = b.half(82) * real(static_cast<int>(scale >> 4));
    out[i] = d * real(two_bits(b, 16, i)) - m;
  }
}
void q3_k(const std::byte* data, float* out) {
  const block b(data);
  for (index_t i = 0; i < 256; ++i) {
    const index_t s = i / 16;
    const unsigned low = b[96 + s % 8] >> 4 * (s / 8) & 15u, high = b[104 + s % 4] >> 2 * (s / 4) & 3u;
    const float d = b.half(108) * real(static_cast<int>(low | high << 4) - 32);
    out[i] = d * real(two_bits(b, 32, i) - (b[i % 32] >> i / 32 & 1u ? 0 : 4));
  }
}
/// Returns scale and minimum j of Q4_K and Q5_K: six bits each, packed into twelve bytes.
std::array<int, 2> six_bits(const block& b, index_t j) {
  const auto s = [&](index_t i) { return b[4 + i]; };
  if (j < 4) return {static_cast<int>(s(j) & 63u), static_cast<int>(s(j + 4) & 63u)};
  return {static_cast<int>((s(j + 4) & 15u) | s(j - 4) >> 6 << 4), static_cast<int>(s(j + 4) >> 4 | s(j) >> 6 << 4)};
}
/// Returns nibble i; 64 entries lie in 32 bytes from `first`.
int nibble_of_64(const block& b, index_t first, index_t i) {
  return static_cast<int>(b[first + 32 * (i / 64) + i % 32] >> 4 * (i / 32 % 2) & 15u);
}
void q4_k(const std::byte* data, float* out) {
  const block b(data);
  for (index_t i = 0; i < 256; ++i) {
    const auto [scale, minimum] = six_bits(b, i / 32);
    const float d = b.half(0) * real(scale), m = b.half(2) * real(minimum);
    out[i] = d * real(nibble_of_64(b, 16, i)) - m;
  }
}
void q5_k(const std::byte* data, float* out) {
  const block b(data);
  for (index_t i = 0; i < 256; ++i) {
    const auto [scale, minimum] = six_bits(b, i / 32);
    const float d = b.half(0) * real(scale), m = b.half(2) * real(minimum);
    const int high = static_cast<int>((b[16 + i % 32] >> i / 32 & 1u) << 4);
    out[i] = d * real(nibble_of_64(b, 48, i) | high) - m;
  }
}
void q6_k(const std::byte* data, float* out) {
  const block b(data);
  for (index_t i = 0; i < 256; ++i) {
    const index_t half = i / 128, g = i % 128 / 32, l = i % 32;
    const unsigned low = b[64 * half + 32 * (g % 2) + l] >> 4 * (g / 2) & 15u,
                   high = b[128 + 32 * half + l] >> 2 * g & 3u;
    const float d = b.half(208) * real(b.at<std::int8_t>(192 + i / 16));
    out[i] = d * real(static_cast<int>(low | high << 4) - 32);
  }
}
void iq4_xs(const std::byte* data, float* out) {
  const block b(data);
  for (index_t i = 0; i < 256; ++i) {
    const index_t g = i / 32;
    const unsigned scale = (b[4 + g / 2] >> 4 * (g % 2) & 15u) | (b.at<std::uint16_t>(2) >> 2 * g & 3u) << 4;
    const float d = b.half(0) * real(static_cast<int>(scale) - 32);
    out[i] = d * iq4_values[b.nibble(8 + 16 * g, 16, i % 32)];
  }
}

constexpr block_type types[] = {
    {0, "F32", 1, 4, plain<float>},   {1, "F16", 1, 2, plain<f16>},      {30, "BF16", 1, 2, plain<bf16>},
    {2, "Q4_0", 32, 18, q4_0},        {3, "Q4_1", 32, 20, q4_1},         {6, "Q5_0", 32, 22, q5_0},
    {7, "Q5_1", 32, 24, q5_1},        {8, "Q8_0", 32, 34, q8_0},         {20, "IQ4_NL", 32, 18, iq4_nl},
    {39, "MXFP4", 32, 17, mxfp4},     {10, "Q2_K", 256, 84, q2_k},       {11, "Q3_K", 256, 110, q3_k},
    {12, "Q4_K", 256, 144, q4_k},     {13, "Q5_K", 256, 176, q5_k},      {14, "Q6_K", 256, 210, q6_k},
    {23, "IQ4_XS", 256, 136, iq4_xs}, {9, "Q8_1", 32, 36, nullptr},      {16, "IQ2_XXS", 256, 66, nullptr},
    {17, "IQ2_XS", 256, 74, nullptr}, {18, "IQ3_XXS", 256, 98, nullptr}, {19, "IQ1_S", 256, 50, nullptr},
    {21, "IQ3_S", 256, 110, nullptr}, {22, "IQ2_S", 256, 82, nullptr},   {29, "IQ1_M", 256, 56, nullptr},
    {34, "TQ1_0", 256, 54, nullptr},  {35, "TQ2_0", 256, 66, nullptr},   {40, "NVFP4", 64, 36, nullptr}};

}  // namespace

const block_type& find_block_type(std::uint32_t id) {
  std::string supported;
  for (const auto& t : types)
    if (t.widen) supported += (supported.empty() ? "" : ", ") + std::string(t.name);
  for (const auto& t : types)
    if (t.id == id) {
      require(t.widen != nullptr, "type ", t.name, " is not supported; supported: ", supported);
      return t;
    }
  fail("type ", id, " of ggml is not known; supported: ", supported);
}

void widen_blocks(const block_type& type, const std::byte* blocks, index_t count, float* out) {
  for (index_t i = 0; i < count; i += type.elements, blocks += type.bytes) type.widen(blocks, out + i);
}

}  // namespace qkgeom
