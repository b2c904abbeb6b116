// SPDX-License-Identifier: MIT
#pragma once

#include <thrust/binary_search.h>
#include <thrust/execution_policy.h>
#include <thrust/fill.h>
#include <thrust/for_each.h>
#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>

#include <vector>

#include "qkgeom/core/buffer.hpp"

namespace qkgeom::thrust_kernels {

/// A device: memory, and launches of a function over [0, n), here by a Thrust policy on raw pointers of `memory`.
/// Floats are summed by chunks of a fixed size in a fixed order, so results do not depend on how the policy works.
template <class Policy, class Memory>
struct device {
  using memory_type = Memory;
  template <class T>
  using buffer = qkgeom::buffer<T, Memory>;

  const Policy& policy;
  const Memory& memory;

  template <class T>
  buffer<T> make(index_t n) const {
    return buffer<T>(memory, n);
  }
  template <class T>
  buffer<T> copy(const std::vector<T>& values) const {
    return buffer<T>(memory, values);
  }
  /// Calls f(i) for i in [0, n), in any order.
  template <class F>
  void each(index_t n, const F& f) const {
    if (n > 0) thrust::for_each_n(policy, thrust::counting_iterator<index_t>(0), n, f);
  }
  template <class T>
  void fill(T* data, index_t n, T value) const {
    if (n > 0) thrust::fill_n(policy, data, n, value);
  }
};

/// Returns the last i in [0, count) with offset[i] <= x; offsets ascend, and offset[0] <= x.
QKGEOM_HD inline index_t place_in(const index_t* offset, index_t count, index_t x) {
  index_t low = 0, high = count;
  while (high - low > 1) {
    const index_t middle = (low + high) / 2;
    (offset[middle] <= x ? low : high) = middle;
  }
  return low;
}

/// Sets to[i] to the sum of chunk i; chunks of `size` cut segment s, from[offset[s]] to from[offset[s + 1] - 1].
template <class T>
struct sum_chunks {
  const T* from;
  const index_t* offset;  ///< (segments + 1) of `from`
  const index_t* chunk;   ///< (segments + 1) of `to`
  index_t segments, size;
  T* to;

  QKGEOM_HD void operator()(index_t i) const {
    const index_t s = place_in(chunk, segments, i);
    const index_t begin = offset[s] + (i - chunk[s]) * size, stop = begin + size;
    const index_t end = stop < offset[s + 1] ? stop : offset[s + 1];
    T sum{};
    for (index_t j = begin; j < end; ++j) sum.add(from[j]);
    to[i] = sum;
  }
};

/// Returns the sum of each segment, by a tree whose shape depends only on the number of values. T has add(const T&).
template <class Policy, class Memory, class T>
std::vector<T> segment_sums(const device<Policy, Memory>& device, qkgeom::buffer<T, Memory> values,
                            std::vector<index_t> offset) {
  constexpr index_t fan = 64;
  const auto segments = static_cast<index_t>(offset.size()) - 1;
  for (bool last = false; !last;) {
    std::vector<index_t> chunk{0};
    last = true;
    for (std::size_t s = 1; s < offset.size(); ++s) {
      const index_t n = (offset[s] - offset[s - 1] + fan - 1) / fan;
      last &= n <= 1;
      chunk.push_back(chunk.back() + (n > 0 ? n : 1));
    }
    auto to = device.template make<T>(chunk.back());
    const auto from_offset = device.copy(offset), to_offset = device.copy(chunk);
    device.each(chunk.back(),
                sum_chunks<T>{values.data(), from_offset.data(), to_offset.data(), segments, fan, to.data()});
    values = std::move(to);
    offset = std::move(chunk);
  }
  return values.host(segments);
}

}  // namespace qkgeom::thrust_kernels
