// SPDX-License-Identifier: MIT
// cuDNN's attention against the blockwise one on a GPU. Skipped where there is no device.
#include "capture/forward/device/cuda_device.cuh"
#include "qkgeom/core/random.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom {
namespace {

using on_device = buffer<bf16, cuda_device::memory_type>;

std::vector<bf16> drawn(index_t n, std::uint64_t seed) {
  const random_stream draws{.seed = seed};
  std::vector<bf16> x(n);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = bf16::round(static_cast<float>(4 * draws.uniform(i) - 2));
  return x;
}

/// Documents of one token, a last chunk of one token, several chunks, of lengths that are powers of two and others; all
/// keys and a window; shared and own key heads.
TEST(cudnn_on_gpu, attends_as_blocks_do) {
  try {
    cuda_kernels::require_device();
  } catch (const error& e) {
    GTEST_SKIP() << e.what();
  }
  cuda_device device(0);
  blockwise_attention<cuda_device, bf16> in_blocks(device, 256, 512);
  const index_t capacity = 900, dim = 64;
  for (const auto& [heads, key_heads] : {std::pair<index_t, index_t>{8, 2}, {4, 4}}) {
    const on_device k(device.memory(), drawn(key_heads * capacity * dim, 1)),
        v(device.memory(), drawn(key_heads * capacity * dim, 2));
    for (const index_t window : {capacity, index_t{100}})
      for (const auto& [first, rows] : {std::pair<index_t, index_t>{0, 1},
                                        {0, 2},
                                        {0, 300},
                                        {300, 1},
                                        {300, 128},
                                        {513, 387},
                                        {640, 3},
                                        {899, 1}}) {
        SCOPED_TRACE(testing::Message() << heads << ' ' << key_heads << ' ' << window << ' ' << first << ' ' << rows);
        const index_t size = rows * heads * dim;
        const on_device q(device.memory(), drawn(size, 3)), ours(device.memory(), size), theirs(device.memory(), size);
        attention_call<bf16> call{q.data(), k.data(),  v.data(), theirs.data(), rows,   first,
                                  heads,    key_heads, dim,      capacity,      window, 1 / std::sqrt(64.0)};
        ASSERT_EQ(device.attend(call), rows > 1) << "one query goes through products";
        if (rows == 1) continue;
        call.out = ours.data();
        in_blocks(call);
        const auto a = ours.host(), b = theirs.host();
        for (std::size_t i = 0; i < a.size(); ++i)
          ASSERT_NEAR(static_cast<float>(a[i]), static_cast<float>(b[i]), 0.02) << i;
      }
  }
}

}  // namespace
}  // namespace qkgeom
