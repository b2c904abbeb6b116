// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "qkgeom/context/context.hpp"

namespace qkgeom::python {

/// A context that calls a function before each primitive that takes time.
template <context Context>
class watched : public Context {
 public:
  using Context::space;

  /// `arguments` are the context's.
  template <class... Arguments>
  explicit watched(void (*before_each_step)(), Arguments&&... arguments)
      : Context(std::forward<Arguments>(arguments)...), before_each_step_(before_each_step) {}

  template <class T>
  std::vector<side_moments> moments(const char* side, const tensor_view<const T, space>& x,
                                    const vector_view<const std::int32_t, space>& position,
                                    const std::vector<std::int32_t>& bucket, index_t buckets, scatter_kind per_bucket) {
    before_each_step_();
    return Context::moments(side, x, position, bucket, buckets, per_bucket);
  }
  template <class T, class... Weight>
  requires requires(Context& ctx, const tensor_view<const T, space>& k, const keys_by_document& groups,
                    const std::vector<pair_problem>& problems, const pair_request& request, const Weight&... weight) {
    ctx.gaussian_pairs(k, groups, problems, request, weight...);
  }
  std::vector<pair_sums> gaussian_pairs(const tensor_view<const T, space>& k, const keys_by_document& groups,
                                        const std::vector<pair_problem>& problems, const pair_request& request,
                                        const Weight&... weight) {
    before_each_step_();
    return Context::gaussian_pairs(k, groups, problems, request, weight...);
  }
  template <class T>
  std::vector<pair_sums> empirical_pairs(const tensor_view<const T, space>& q, const tensor_view<const T, space>& k,
                                         const keys_by_document& groups, const std::vector<empirical_problem>& problems,
                                         std::optional<pair_precision> precision = {}) {
    before_each_step_();
    return Context::empirical_pairs(q, k, groups, problems, precision);
  }

 private:
  void (*before_each_step_)();
};

}  // namespace qkgeom::python
