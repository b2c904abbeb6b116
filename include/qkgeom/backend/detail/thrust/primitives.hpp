// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/backend/detail/thrust/empirical_pairs.hpp"
#include "qkgeom/backend/detail/thrust/gaussian_pairs.hpp"
#include "qkgeom/backend/detail/thrust/needles.hpp"
#include "qkgeom/context/context.hpp"
#include "qkgeom/context/row_rotation.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/linalg/symmetric.hpp"

namespace qkgeom::thrust_kernels {

/// Runs a caller's weight on the host. Keeps an exception for `rethrow`, since a parallel region cannot pass it on.
class host_weight {
 public:
  static constexpr bool given = true;
  explicit host_weight(const pair_weight& weight) : weight_(&weight), thrown_(std::make_shared<first_exception>()) {}
  double operator()(const key_pair& p) const {
    try {
      return (*weight_)(p);
    } catch (...) {
      const std::lock_guard lock(thrown_->mutex);
      if (!thrown_->what) thrown_->what = std::current_exception();
      return 0;
    }
  }
  void rethrow() const {
    if (thrown_->what) std::rethrow_exception(thrown_->what);
  }

 private:
  struct first_exception {
    std::mutex mutex;
    std::exception_ptr what;
  };
  const pair_weight* weight_;
  std::shared_ptr<first_exception> thrown_;
};

/// The primitives of a context on Thrust's `Policy`; see thrust_context. Factors and eigenproblems run on the host.
template <class Policy, class Memory>
class primitives {
 public:
  static constexpr memory_space space = Memory::space;

  primitives(Policy policy, Memory memory, int threads)
      : policy_(std::move(policy)), memory_(std::move(memory)), pool_(std::make_unique<thread_pool>(threads)) {}

  thread_pool& pool() { return *pool_; }
  const Memory& memory() const { return memory_; }

  /// See cpu_context::for_each; runs on the host.
  template <class F>
  void for_each(index_t n, F&& f) {
    pool_->for_each(n, [&](index_t i, int) { f(i); });
  }

  /// Returns values that the host may read: a view of the caller's memory if `space` is the host's, else a copy.
  template <class T>
  host_values<std::remove_const_t<T>> host_copy(const vector_view<T, space>& x) {
    using value = std::remove_const_t<T>;
    if constexpr (space == memory_space::host) {
      return host_values<value>(x);
    } else {
      std::vector<value> copy(x.size);
      if (x.size > 0) memory_.to_host(copy.data(), x.data, copy.size() * sizeof(value));
      return host_values<value>(std::move(copy));
    }
  }

  /// See cpu_context::moments.
  template <class T>
  std::vector<side_moments> moments(const char* side, const tensor_view<const T, space>& x,
                                    const vector_view<const std::int32_t, space>& position,
                                    const std::vector<std::int32_t>& bucket, index_t buckets, scatter_kind per_bucket) {
    return thrust_kernels::moments(
        device(), scatter_by_loops{}, [&](index_t n, auto&& f) { for_each(n, f); }, side, x, position, bucket, buckets,
        per_bucket);
  }

  /// See cpu_context::symmetric_eigen.
  std::vector<eigen_system> symmetric_eigen(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return linalg::symmetric_eigen(*this, matrices, d);
  }

  /// See cpu_context::cholesky.
  std::vector<semidefinite_root> cholesky(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return linalg::cholesky(*this, matrices, d);
  }

  /// See cpu_context::gaussian_pairs. Throws on `request.weight` for a device's `space`: give device_weighted_pairs.
  template <class T>
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T, space>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request) {
    if (!request.weight)
      return thrust_kernels::gaussian_pairs(device(), k, groups, problems, request, backend::no_weight{});
    if constexpr (space == memory_space::host) {
      const thrust_kernels::host_weight weight(request.weight);
      auto sums = thrust_kernels::gaussian_pairs(device(), k, groups, problems, request, weight);
      weight.rethrow();
      return sums;
    } else {
      fail(
          "gaussian_pairs: a weight of this kind runs on the host alone; on a device give the pairs as "
          "device_weighted_pairs{weight}");
    }
  }

  /// Does the same with a weight that runs where the policy does: double(const key_pair&).
  template <class T, class Weight>
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T, space>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request,
                                        const Weight& weight) {
    return thrust_kernels::gaussian_pairs(device(), k, groups, problems, request,
                                          backend::given_weight<Weight>{weight});
  }

  /// See cpu_context::empirical_pairs.
  template <class T>
  std::vector<pair_sums> empirical_pairs(const tensor_view<const T, space>& q, const tensor_view<const T, space>& k,
                                         const keys_by_document& groups, const std::vector<empirical_problem>& problems,
                                         std::optional<pair_precision> precision = {}) {
    return thrust_kernels::empirical_pairs(device(), q, k, groups, problems, precision.value_or(usual_precision<T>));
  }

  /// See cpu_context::rotate_rows.
  template <class From, class To>
  void rotate_rows(const tensor_view<const From, space>& x, const vector_view<const std::int32_t, space>& from,
                   const row_rotation& rotation, const vector_view<const std::int32_t, space>& to,
                   const tensor_view<To, space>& y) {
    const auto here = device();
    const auto planes = here.copy(rotation.planes);
    const auto slot = rotated_slot_of(x, from, rotation, to, y, planes.data());
    here.each(x.rows * slot.slots(), slot);
  }

  /// See cpu_context::score_needles; `multiply` computes the products. Memory holds the rotated keys of one document
  /// and key head, and the scores of one query head.
  template <class T, class Multiply = multiply_by_loops>
  void score_needles(const tensor_view<const T, space>& q, const tensor_view<const T, space>& k,
                     const std::vector<index_t>& key_of_query, const needle_plan& plan,
                     const std::vector<needle_document>& documents, const needle_sink& each,
                     const Multiply& multiply = {}) {
    const auto here = device();
    const needle_scorer<device_type, Multiply, T, space> scorer(here, multiply, q, k, key_of_query, plan);
    for (index_t e = 0; e < std::ssize(documents); ++e) {
      const auto found = scorer(documents[e]);
      for_each(std::ssize(found), [&](index_t h) { each(e, h, found[h]); });
    }
  }

 protected:
  using device_type = thrust_kernels::device<Policy, Memory>;
  device_type device() const { return {policy_, memory_}; }

 private:
  Policy policy_;
  Memory memory_;
  std::unique_ptr<thread_pool> pool_;
};

}  // namespace qkgeom::thrust_kernels
