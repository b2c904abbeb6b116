// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/context/context.hpp"
#include "qkgeom/core/buffer.hpp"

namespace qkgeom {

/// Takes views of host memory and computes on another context, whose views are of its own memory: after `cuda_context
/// gpu; uploading_context ctx{gpu};`, `ctx` does for rows in host memory what `gpu` does for rows on the device. Each
/// call uploads the heads of its views, packed, and keeps only the keys of a `prepared_layer`: a pointer does not tell
/// whether its values have changed since the last call. A cpu_context sums weights that run only on the host
/// (`pair_request::weight`); see `device_weighted_pairs` for weights of a device. `Context::memory()` is the memory
/// that it computes on. The other context must outlive this one. Use a context from one thread at a time.
template <context Context>
class uploading_context {
 public:
  static constexpr memory_space space = memory_space::host;

  explicit uploading_context(Context& remote) : remote_(&remote) {}

  thread_pool& pool() { return remote_->pool(); }

  /// Calls f(i) for i in [0, n), in parallel, on the host.
  template <class F>
  void for_each(index_t n, F&& f) {
    remote_->for_each(n, std::forward<F>(f));
  }

  /// Returns values that the host may read: a view of the caller's memory.
  template <class T>
  host_values<std::remove_const_t<T>> host_copy(const vector_view<T>& x) {
    return host_values<std::remove_const_t<T>>(x);
  }

  /// Lets calls on this very view share one copy of its rows, which must not change, while the returned value lives.
  template <class T>
  [[nodiscard]] std::shared_ptr<const void> keep(const tensor_view<const T>& x) {
    const auto rows = upload(x);
    kept_.push_back({name_of(x), rows.values});
    return rows.values;
  }

  /// See cpu_context::moments.
  template <class T>
  std::vector<side_moments> moments(const char* side, const tensor_view<const T>& x,
                                    const vector_view<const std::int32_t>& position,
                                    const std::vector<std::int32_t>& bucket, index_t buckets, scatter_kind per_bucket) {
    const auto rows = upload(x);
    const buffer<std::int32_t, memory> positions(remote_->memory(), position.size);
    copy(positions.data(), position.data, position.size * size<std::int32_t>);
    return remote_->moments(side, rows.view,
                            vector_view<const std::int32_t, remote_space>{positions.data(), position.size}, bucket,
                            buckets, per_bucket);
  }

  /// See cpu_context::symmetric_eigen.
  std::vector<eigen_system> symmetric_eigen(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return remote_->symmetric_eigen(matrices, d);
  }

  /// See cpu_context::cholesky.
  std::vector<semidefinite_root> cholesky(const std::vector<const std::vector<double>*>& matrices, index_t d) {
    return remote_->cholesky(matrices, d);
  }

  /// See cpu_context::gaussian_pairs.
  template <class T>
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request) {
    if (request.weight) return host_context().gaussian_pairs(k, groups, problems, request);
    const auto keys = upload(k);
    return remote_->gaussian_pairs(keys.view, groups, problems, request);
  }
  /// Does the same with a weight that runs where the other context computes.
  template <class T, class Weight>
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request,
                                        const Weight& weight) {
    const auto keys = upload(k);
    return remote_->gaussian_pairs(keys.view, groups, problems, request, weight);
  }

  /// See cpu_context::empirical_pairs.
  template <class T>
  std::vector<pair_sums> empirical_pairs(const tensor_view<const T>& q, const tensor_view<const T>& k,
                                         const keys_by_document& groups, const std::vector<empirical_problem>& problems,
                                         std::optional<pair_precision> precision = {}) {
    const auto queries = upload(q), keys = upload(k);
    return remote_->empirical_pairs(queries.view, keys.view, groups, problems, precision);
  }

  /// See cpu_context::score_needles.
  template <class T>
  void score_needles(const tensor_view<const T>& q, const tensor_view<const T>& k,
                     const std::vector<index_t>& key_of_query, const needle_plan& plan,
                     const std::vector<needle_document>& documents, const needle_sink& each) {
    const auto queries = upload(q), keys = upload(k);
    remote_->score_needles(queries.view, keys.view, key_of_query, plan, documents, each);
  }

 private:
  using memory = std::remove_cvref_t<decltype(std::declval<Context&>().memory())>;
  static constexpr memory_space remote_space = memory::space;
  template <class T>
  static constexpr auto size = static_cast<index_t>(sizeof(T));

  template <class T>
  struct uploaded {
    std::shared_ptr<const buffer<T, memory>> values;  ///< (rows, heads, dim), packed
    tensor_view<const T, remote_space> view;
  };

  /// The identity of a view.
  using view_name = std::tuple<std::type_index, const void*, index_t, index_t, index_t, index_t, index_t>;
  template <class T>
  static view_name name_of(const tensor_view<const T>& x) {
    return {typeid(T), x.data, x.rows, x.heads, x.dim, x.row_stride, x.head_stride};
  }
  struct kept_rows {
    view_name name;
    std::weak_ptr<const void> values;
  };

  template <class T>
  uploaded<T> upload(const tensor_view<const T>& x) {
    const index_t width = x.heads * x.dim;
    const auto with = [&](std::shared_ptr<const buffer<T, memory>> values) {
      const tensor_view<const T, remote_space> view{values->data(), x.rows, x.heads, x.dim, width, x.dim};
      return uploaded<T>{std::move(values), view};
    };
    std::erase_if(kept_, [](const kept_rows& k) { return k.values.expired(); });
    for (const kept_rows& k : kept_)
      if (k.name == name_of(x)) return with(std::static_pointer_cast<const buffer<T, memory>>(k.values.lock()));
    auto values = std::make_shared<buffer<T, memory>>(remote_->memory(), x.rows * width);
    if (x.row_stride == width && x.head_stride == x.dim)
      copy(values->data(), x.data, x.rows * width * size<T>);
    else
      copy_packed(values->data(), x);
    return with(std::move(values));
  }

  void copy(void* to, const void* from, index_t bytes) const {
    if (bytes > 0) remote_->memory().from_host(to, from, static_cast<std::size_t>(bytes));
  }

  template <class T>
  void copy_packed(T* to, const tensor_view<const T>& x) {
    constexpr index_t piece_values = index_t{1} << 22, task_rows = 64;
    const index_t width = std::max<index_t>(1, x.heads * x.dim), piece = std::max<index_t>(1, piece_values / width);
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

  cpu_context& host_context() {
    if (!host_context_) host_context_.emplace(cpu_options{.threads = pool().size()});
    return *host_context_;
  }

  Context* remote_;
  std::vector<kept_rows> kept_;
  std::optional<cpu_context> host_context_;  // made at the first weight that runs only on the host
};

}  // namespace qkgeom
