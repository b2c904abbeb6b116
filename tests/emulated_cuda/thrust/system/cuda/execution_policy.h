// SPDX-License-Identifier: MIT
// Thrust's algorithms on a stream of the emulated device: OpenMP's, run when the stream gets there.
#pragma once

#include <thrust/binary_search.h>
#include <thrust/fill.h>
#include <thrust/for_each.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/system/omp/execution_policy.h>
#include <thrust/transform_reduce.h>

#include "tests/emulated_cuda/cuda_runtime.h"

namespace qkgeom::emulated {

class stream_policy : public thrust::omp::execution_policy<stream_policy> {
 public:
  stream_policy on(cudaStream_t stream) const {
    stream_policy p;
    p.stream_ = stream;
    return p;
  }
  void give(work w) const { device::the().give(of(stream_), std::move(w)); }
  void wait() const { cudaStreamSynchronize(stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

template <class In, class Size, class F>
In for_each_n(stream_policy& on, In first, Size n, F f) {
  on.give([=] { thrust::for_each_n(thrust::omp::par, first, n, f); });
  return first + n;
}
template <class Out, class Size, class T>
Out fill_n(stream_policy& on, Out first, Size n, const T& value) {
  on.give([=] { thrust::fill_n(thrust::omp::par, first, n, value); });
  return first + n;
}
template <class Out>
void sequence(stream_policy& on, Out first, Out last) {
  on.give([=] { thrust::sequence(thrust::omp::par, first, last); });
}
template <class Key, class Value>
void stable_sort_by_key(stream_policy& on, Key first, Key last, Value values) {
  on.give([=] { thrust::stable_sort_by_key(thrust::omp::par, first, last, values); });
}
template <class In, class Value, class Out>
Out lower_bound(stream_policy& on, In first, In last, Value values, Value values_end, Out to) {
  on.give([=] { thrust::lower_bound(thrust::omp::par, first, last, values, values_end, to); });
  return to + (values_end - values);
}
template <class In, class F, class T, class Op>
T transform_reduce(stream_policy& on, In first, In last, F f, T start, Op op) {
  T result = start;
  on.give([&] { result = thrust::transform_reduce(thrust::omp::par, first, last, f, start, op); });
  on.wait();
  return result;
}

}  // namespace qkgeom::emulated

namespace thrust::cuda {

struct par_nosync_t {
  template <class Allocator>
  qkgeom::emulated::stream_policy operator()(Allocator&) const {
    return {};
  }
};
inline constexpr par_nosync_t par_nosync{};
inline const qkgeom::emulated::stream_policy par{};

}  // namespace thrust::cuda
