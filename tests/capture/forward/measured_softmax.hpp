// SPDX-License-Identifier: MIT
// A document's queries and keys, and what its softmax gives: as a device measures it, chunk by chunk, and plainly.
#pragma once

#include "capture/forward/softmax.hpp"
#include "capture/forward/team.hpp"
#include "qkgeom/core/random.hpp"
#include "tests/common/testing.hpp"

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

/// What a device in the host's memory measures; it is given the keys of a chunk after those of the chunks before.
template <class T, class Device>
std::vector<double> measured_in_chunks(Device& device, const noisy_document& d, const softmax_request& what,
                                       index_t chunk = 70) {
  sampled_softmax<Device, T> softmax(device);
  const auto elements = [](const std::vector<float>& x, index_t n) {
    std::vector<T> y;
    for (auto at = x.begin(); at < x.begin() + n; ++at) y.push_back(device_kernels::to_element<T>(*at));
    return y;
  };
  const auto q = elements(d.q, static_cast<index_t>(d.q.size()));
  const index_t heads = static_cast<index_t>(what.heads.size()), queries = static_cast<index_t>(what.positions.size()),
                measures = softmax_measures(what.bins).count();
  std::vector<double> all(heads * queries * measures);
  for (index_t first = 0; first < d.tokens; first += chunk) {
    const index_t end = std::min(first + chunk, d.tokens), a_key = d.key_heads * d.dim, a_query = d.query_heads * d.dim;
    const auto k = elements(d.k, end * a_key);
    softmax(first, packed_tensor(q.data() + first * a_query, end - first, d.query_heads, d.dim),
            packed_tensor(k.data(), end, d.key_heads, d.dim), what, [&](index_t at, const std::vector<double>& found) {
              const index_t some = static_cast<index_t>(found.size()) / heads;
              for (index_t h = 0; h < heads; ++h)
                std::copy_n(found.data() + h * some, some, all.data() + (h * queries + at) * measures);
            });
  }
  return all;
}

/// The same of q (tokens, query heads, d) and k (tokens, key heads, d), one query and key at a time in f64.
inline std::vector<double> plain_softmax(tensor_view<const float> q, tensor_view<const float> k,
                                         const softmax_request& what) {
  const softmax_measures measures(what.bins);
  std::vector<double> all;
  for (std::size_t i = 0; i < what.heads.size(); ++i)
    for (const std::int32_t t : what.positions) {
      const auto query = q.head(what.heads[i]), keys = k.head(what.heads[i] * k.heads / q.heads);
      std::vector<double> p, found(measures.count());
      for (index_t j = 0; j <= t; ++j) {
        double x = 0;
        for (index_t c = 0; c < q.dim; ++c) x += static_cast<double>(query(t, c)) * static_cast<double>(keys(j, c));
        x = what.cap > 0 ? what.cap * std::tanh(what.scale * x / what.cap) : what.scale * x;
        p.push_back(what.window && j <= t - *what.window ? 0 : std::exp(x));
      }
      const double sink = what.sinks.empty() ? 0 : std::exp(static_cast<double>(what.sinks[i]));
      const double sum = std::accumulate(p.begin(), p.end(), sink);
      if (sink > 0) found[softmax_measures::entropy] -= sink / sum * std::log(sink / sum);
      for (index_t j = 0; j <= t; ++j) {
        const double mass = p[j] / sum;
        index_t bin = 0;
        while ((index_t{1} << bin) <= t - j) ++bin;
        found[softmax_measures::distances + bin] += mass;
        for (std::size_t f = 0; f < first_tokens.size(); ++f)
          if (j < first_tokens[f]) found[f] += mass;
        if (mass > 0) found[softmax_measures::entropy] -= mass * std::log(mass);
      }
      all.insert(all.end(), found.begin(), found.end());
    }
  return all;
}

inline void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5 * (1 + std::abs(b[i]))) << i;
}

}  // namespace qkgeom::test
