// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/context/context.hpp"
#include "qkgeom/core/buffer.hpp"

namespace qkgeom {

/// Runs every primitive of the library on views of host memory where another context computes, which takes views of its
/// own memory: `cuda_context gpu; uploading_context ctx{gpu};` does for rows in host memory what `gpu` does for rows on
/// the device. A call copies the heads of the views that it is given, packed, and gives that memory back when it ends:
/// rows are not kept, since nothing says whether the values behind a pointer are still those of the last call. Pairs
/// with a weight that runs on the host alone (`pair_request::weight`) are summed there, by a `cpu_context`; see
/// `device_weighted_pairs`. `Context` has `memory()`, the memory that it computes on, and must outlive this. Not to be
/// shared by threads at the same time.
template <context Context>
class uploading_context {
 public:
  static constexpr memory_space space = memory_space::host;

  explicit uploading_context(Context& there) : there_(&there) {}

  thread_pool& pool() { return there_->pool(); }

  /// `f(i)` for i in [0, n), in parallel, on the host.
  template <class F>
  void for_each(index_t n, F&& f) {
    there_->for_each(n, std::forward<F>(f));
  }

  /// Values that the host may read: the caller's own.
  template <class T>
  host_values<std::remove_const_t<T>> host_copy(const vector_view<T>& x) {
    return host_values<std::remove_const_t<T>>(x);
  }

  /// See cpu_context::moments.
  template <class T>
  std::vector<side_moments> moments(const char* side, const tensor_view<const T>& x,
                                    const vector_view<const std::int32_t>& position,
                                    const std::vector<std::int32_t>& bucket, index_t buckets, scatter_kind per_bucket) {
    const auto rows = upload(x);
    const buffer<std::int32_t, memory> at(there_->memory(), position.size);
    copy(at.data(), position.data, position.size * size<std::int32_t>);
    return there_->moments(side, rows.view, vector_view<const std::int32_t, far>{at.data(), position.size}, bucket,
                           buckets, per_bucket);
  }

  /// See cpu_context::symmetric_eigen.
  std::vector<eigen_system> symmetric_eigen(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return there_->symmetric_eigen(matrices, d);
  }

  /// See cpu_context::cholesky.
  std::vector<semidefinite_root> cholesky(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return there_->cholesky(matrices, d);
  }

  /// See cpu_context::gaussian_pairs.
  template <class T>
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request) {
    if (request.weight) return here().gaussian_pairs(k, groups, problems, request);
    const auto keys = upload(k);
    return there_->gaussian_pairs(keys.view, groups, problems, request);
  }
  /// The same with a weight that runs where `Context` computes.
  template <class T, class Weight>
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request,
                                        const Weight& weight) {
    const auto keys = upload(k);
    return there_->gaussian_pairs(keys.view, groups, problems, request, weight);
  }

  /// See cpu_context::empirical_pairs.
  template <class T>
  std::vector<pair_sums> empirical_pairs(const tensor_view<const T>& q, const tensor_view<const T>& k,
                                         const keys_by_document& groups,
                                         const std::vector<empirical_problem>& problems) {
    const auto queries = upload(q), keys = upload(k);
    return there_->empirical_pairs(queries.view, keys.view, groups, problems);
  }

 private:
  using memory = std::remove_cvref_t<decltype(std::declval<Context&>().memory())>;
  static constexpr memory_space far = memory::space;
  template <class T>
  static constexpr auto size = static_cast<index_t>(sizeof(T));

  /// A packed copy of (rows, heads, dim) where `Context` computes.
  template <class T>
  struct uploaded {
    buffer<T, memory> values;
    tensor_view<const T, far> view;
  };

  template <class T>
  uploaded<T> upload(const tensor_view<const T>& x) {
    const index_t width = x.heads * x.dim;
    buffer<T, memory> values(there_->memory(), x.rows * width);
    if (x.row_stride == width && x.head_stride == x.dim)
      copy(values.data(), x.data, x.rows * width * size<T>);
    else
      copy_packed(values.data(), x);
    const tensor_view<const T, far> view{values.data(), x.rows, x.heads, x.dim, width, x.dim};
    return {std::move(values), view};
  }

  void copy(void* to, const void* from, index_t bytes) const {
    if (bytes > 0) there_->memory().from_host(to, from, static_cast<std::size_t>(bytes));
  }

  /// Packs a few million values at a time.
  template <class T>
  void copy_packed(T* to, const tensor_view<const T>& x) {
    constexpr index_t most_values = index_t{1} << 22, task_rows = 64;
    const index_t width = std::max<index_t>(1, x.heads * x.dim), piece = std::max<index_t>(1, most_values / width);
    std::vector<T> packed;
    for (index_t first = 0; first < x.rows; first += piece) {
      const index_t rows = std::min(piece, x.rows - first);
      packed.resize(rows * width);
      for_each((rows + task_rows - 1) / task_rows, [&](index_t task) {
        for (index_t i = task * task_rows; i < std::min(rows, (task + 1) * task_rows); ++i)
          for (index_t h = 0; h < x.heads; ++h) {
            const T* const row = x.head(h).row(first + i);
            std::copy(row, row + x.dim, packed.data() + i * width + h * x.dim);
          }
      });
      copy(to + first * width, packed.data(), rows * width * size<T>);
    }
  }

  cpu_context& here() {
    if (!here_) here_.emplace(cpu_options{.threads = pool().size()});
    return *here_;
  }

  Context* there_;
  std::optional<cpu_context> here_;  ///< for weights that run on the host alone; made when one comes
};

}  // namespace qkgeom
