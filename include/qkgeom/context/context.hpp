// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/context/needle_scores.hpp"
#include "qkgeom/context/pair_problem.hpp"
#include "qkgeom/context/row_moments.hpp"
#include "qkgeom/context/row_rotation.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Values in host memory, as `host_copy` of a context returns them: a view of the caller's memory, or an owned copy.
template <class T>
class host_values {
 public:
  explicit host_values(vector_view<const T> here) : view_(here) {}
  explicit host_values(std::vector<T> copy)
      : copy_(std::move(copy)), view_{copy_.data(), static_cast<index_t>(copy_.size())} {}
  host_values(host_values&&) noexcept = default;
  host_values& operator=(host_values&&) noexcept = default;

  const vector_view<const T>& view() const { return view_; }

 private:
  std::vector<T> copy_;
  vector_view<const T> view_;
};

/// Eigenvalues, descending (d), and eigenvectors as rows (d, d) of a symmetric matrix.
struct eigen_system {
  std::vector<double> values;
  std::vector<double> vectors;
};

/// Factor F (d, rank), row-major, of a positive semi-definite matrix F F'.
struct semidefinite_root {
  index_t rank = 0;
  std::vector<double> factor;
};

/// A context that runs independent work on the host and copies values to it.
template <class C>
concept runs_host_work = requires(C& ctx, const vector_view<const std::int32_t, C::space>& values, void (*f)(index_t)) {
  { C::space } -> std::convertible_to<memory_space>;
  ctx.for_each(index_t{}, f);  // not a lambda: nvcc 13.0 rejects it here
  { ctx.host_copy(values) } -> std::same_as<host_values<std::int32_t>>;
};

/// A context that sums moments of rows: see cpu_context::moments.
template <class C>
concept sums_moments = requires(C& ctx, const tensor_view<const float, C::space>& x,
                                const vector_view<const std::int32_t, C::space>& position,
                                const std::vector<std::int32_t>& bucket) {
  { ctx.moments("q", x, position, bucket, index_t{}, scatter_kind::full) } -> std::same_as<std::vector<side_moments>>;
};

/// A context that decomposes symmetric (d, d) matrices: see cpu_context::symmetric_eigen and cpu_context::cholesky.
template <class C>
concept solves_symmetric = requires(C& ctx, const std::vector<const std::vector<double>*>& matrices) {
  { ctx.symmetric_eigen(matrices, index_t{}) } -> std::same_as<std::vector<eigen_system>>;
  { ctx.cholesky(matrices, index_t{}) } -> std::same_as<std::vector<semidefinite_root>>;
};

/// A context that sums over pairs of keys: see cpu_context::gaussian_pairs and cpu_context::empirical_pairs.
template <class C>
concept sums_pairs = requires(C& ctx, const tensor_view<const float, C::space>& x, const keys_by_document& keys,
                              const std::vector<pair_problem>& problems, const pair_request& request,
                              const std::vector<empirical_problem>& observed,
                              const std::optional<pair_precision>& precision) {
  { ctx.gaussian_pairs(x, keys, problems, request) } -> std::same_as<std::vector<pair_sums>>;
  { ctx.empirical_pairs(x, x, keys, observed, precision) } -> std::same_as<std::vector<pair_sums>>;
};

/// A context that rotates rows: see cpu_context::rotate_rows. No analysis needs it.
template <class C>
concept rotates_rows = requires(C& ctx, const tensor_view<const float, C::space>& x,
                                const vector_view<const std::int32_t, C::space>& position, const row_rotation& rotation,
                                const tensor_view<float, C::space>& y) {
  ctx.rotate_rows(x, position, rotation, position, y);
};

/// A context that scores needles: see cpu_context::score_needles. Grip alone needs it.
template <class C>
concept scores_needles = runs_host_work<C> &&
    requires(C& ctx, const tensor_view<const float, C::space>& x, const std::vector<index_t>& heads,
             const needle_plan& plan, const std::vector<needle_document>& documents, const needle_sink& each) {
  ctx.score_needles(x, x, heads, plan, documents, each);
};

/// A backend that runs analyses. `C::space` is the memory of its views. The primitives accept every element type, not
/// only float. Every algorithm of the library is written once, over a context.
template <class C>
concept context = runs_host_work<C> && sums_moments<C> && solves_symmetric<C> && sums_pairs<C>;

}  // namespace qkgeom
