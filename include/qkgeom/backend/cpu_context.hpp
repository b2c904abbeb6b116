// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <vector>

#include "qkgeom/backend/detail/cpu/primitives.hpp"
#include "qkgeom/context/context.hpp"
#include "qkgeom/context/row_rotation.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/core/thread_pool.hpp"
#include "qkgeom/linalg/needles.hpp"
#include "qkgeom/linalg/symmetric.hpp"

namespace qkgeom {

struct cpu_options {
  int threads = 0;  ///< 0 or less: `usable_cores()`
};

/// Runs every primitive on the CPU, with Eigen and threads. Results do not depend on the number of threads. Use a
/// context from one thread at a time.
class cpu_context {
 public:
  static constexpr memory_space space = memory_space::host;

  explicit cpu_context(const cpu_options& options = {}) : pool_(std::make_unique<thread_pool>(options.threads)) {}

  int threads() const { return pool_->size(); }
  /// Returns the instruction set of the kernels that run, for example "AVX2" (core/instruction_set.hpp).
  static const char* kernels() { return cpu::kernels().name; }
  thread_pool& pool() { return *pool_; }

  /// Calls f(i) for i in [0, n), in parallel.
  template <class F>
  void for_each(index_t n, F&& f) {
    pool_->for_each(n, [&](index_t i, int) { f(i); });
  }

  /// Returns values that the host may read: a view of the caller's memory.
  template <class T>
  host_values<std::remove_const_t<T>> host_copy(const vector_view<T>& x) {
    return host_values<std::remove_const_t<T>>(x);
  }

  /// Computes moments of each head of x (n, heads, d) with the rows' positions (n), in tokens: over all rows, with the
  /// full scatter, and over each bucket, with a scatter of kind `per_bucket`. bucket (n) is in [0, buckets), or -1 for
  /// a row outside all. Throws on a row that is not finite; the error names `side`, head and row.
  template <class T>
  std::vector<side_moments> moments(const char* side, const tensor_view<const T>& x,
                                    const vector_view<const std::int32_t>& position,
                                    const std::vector<std::int32_t>& bucket, index_t buckets, scatter_kind per_bucket) {
    return cpu::kernels().moments(*pool_, side, cpu::widened(x), position, bucket, buckets, per_bucket);
  }

  /// Returns eigenvalues (descending) and eigenvectors of symmetric (d, d) matrices. Throws if an entry is not finite.
  std::vector<eigen_system> symmetric_eigen(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return linalg::symmetric_eigen(*this, matrices, d);
  }

  /// Returns factors F (d, rank) of symmetric positive semi-definite (d, d) matrices F F'.
  std::vector<semidefinite_root> cholesky(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return linalg::cholesky(*this, matrices, d);
  }

  /// Sums over pairs of keys under Gaussian scores, one result per problem: over all pairs, or over the pairs that
  /// `request` draws. Values too large or too small for f32 arithmetic are computed in f64. k is (n, key heads, d);
  /// `groups` says which of its rows are keys. Throws on a key that is not finite, on a weight that is negative or not
  /// finite, and on a weight for drawn pairs.
  template <class T>
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request) {
    return cpu::kernels().gaussian_pairs(*pool_, *memory_, request.precision.value_or(usual_precision<T>),
                                         cpu::widened(k), groups, problems, request);
  }

  /// Sums over all pairs of keys under observed queries, one result per problem. q is (n_q, query heads, d), k (n, key
  /// heads, d). Scores use `precision` (default: `usual_precision`), and f64 where values leave the range of f32.
  /// Throws if a key is not finite.
  template <class T>
  std::vector<pair_sums> empirical_pairs(const tensor_view<const T>& q, const tensor_view<const T>& k,
                                         const keys_by_document& groups, const std::vector<empirical_problem>& problems,
                                         std::optional<pair_precision> precision = {}) {
    return cpu::kernels().empirical_pairs(*pool_, precision.value_or(usual_precision<T>), cpu::widened(q),
                                          cpu::widened(k), groups, problems);
  }

  /// Rotates row i of x (n, heads, d), which stood at position from[i], to position to[i] and writes it to y (n, heads,
  /// d), of float or double. `rotation` comes from `rotation_between` of two rotary embeddings. Computes in f64.
  template <class From, class To>
  void rotate_rows(const tensor_view<const From>& x, const vector_view<const std::int32_t>& from,
                   const row_rotation& rotation, const vector_view<const std::int32_t>& to, const tensor_view<To>& y) {
    const auto slot = rotated_slot_of(x, from, rotation, to, y, rotation.planes.data());
    for_each(x.rows, [&](index_t i) {
      for (index_t s = 0; s < slot.slots(); ++s) slot.at(i, s);
    });
  }

  /// Scores the needles of documents against their other keys, for each query head: rows q (n_q, query heads, d) and k
  /// (n, key heads, d) from before the rotary embedding, which `plan` rotates. Products are f32. Gives the scores of
  /// each document and head to `each`. A thread holds the scores of one document and key head.
  template <class T>
  void score_needles(const tensor_view<const T>& q, const tensor_view<const T>& k,
                     const std::vector<index_t>& key_of_query, const needle_plan& plan,
                     const std::vector<needle_document>& documents, const needle_sink& each) {
    linalg::score_needles(*this, q, k, key_of_query, plan, documents, each);
  }

 private:
  std::unique_ptr<thread_pool> pool_;
  std::shared_ptr<cpu::pair_memory> memory_ = cpu::kernels().make_pair_memory();
};

}  // namespace qkgeom
