// SPDX-License-Identifier: MIT
// A document's queries and keys, and what its softmax gives as a device measures it, chunk by chunk.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "capture/forward/device/attention_sums.hpp"
#include "capture/forward/team.hpp"
#include "qkgeom/core/random.hpp"

namespace qkgeom::test {

inline std::vector<float> noise_of(index_t size, std::uint64_t seed, float scale) {
  const random_stream stream{.seed = seed, .use = draw::permutation};
  std::vector<float> x(size);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = scale * static_cast<float>(stream.uniform(i) - 0.5);
  return x;
}

/// q (tokens, query heads, dim) and k (tokens, key heads, dim) of noise.
struct noisy_document {
  index_t tokens = 301, query_heads = 6, key_heads = 2, dim = 20;
  std::vector<float> q = noise_of(tokens * query_heads * dim, 1, 6), k = noise_of(tokens * key_heads * dim, 2, 6);

  tensor_view<const float> queries() const { return packed_tensor(q.data(), tokens, query_heads, dim); }
  tensor_view<const float> keys() const { return packed_tensor(k.data(), tokens, key_heads, dim); }
};

/// On a device in the host's memory, which is given the keys of a chunk after those of the chunks before.
template <class T, class Device>
attention_sums measured_in_chunks(Device& device, const noisy_document& d, const measured_heads& what,
                                  index_t chunk = 70) {
  device_attention_sums<Device, T> sums(device, 20, 32, 2);
  const auto elements = [](const std::vector<float>& x, index_t n) {
    std::vector<T> y;
    for (auto at = x.begin(); at < x.begin() + n; ++at) y.push_back(device_kernels::to_element<T>(*at));
    return y;
  };
  const auto q = elements(d.q, static_cast<index_t>(d.q.size()));
  for (index_t first = 0; first < d.tokens; first += chunk) {
    const index_t end = std::min(first + chunk, d.tokens), a_key = d.key_heads * d.dim, a_query = d.query_heads * d.dim;
    const auto k = elements(d.k, end * a_key);
    sums.add(first, packed_tensor(q.data() + first * a_query, end - first, d.query_heads, d.dim),
             packed_tensor(k.data(), end, d.key_heads, d.dim), what);
  }
  return sums.finish(what);
}

inline void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5 * (1 + std::abs(b[i]))) << i;
}
inline void expect_near(const attention_sums& a, const attention_sums& b) {
  EXPECT_EQ(a.count, b.count);
  expect_near(a.first, b.first);
  expect_near(a.distance, b.distance);
  expect_near(a.entropy, b.entropy);
}

}  // namespace qkgeom::test
