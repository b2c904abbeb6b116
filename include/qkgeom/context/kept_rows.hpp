// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom {

/// Keeps rows where a context computes: until the returned value is gone, calls on this very view of them share one
/// copy. The rows must not change meanwhile. A context that computes where the rows lie has nothing to keep.
template <context Context, class T, memory_space S>
[[nodiscard]] std::shared_ptr<const void> keep_rows(Context& ctx, const tensor_view<const T, S>& x) {
  if constexpr (requires { ctx.keep(x); })
    return ctx.keep(x);
  else
    return nullptr;
}

}  // namespace qkgeom
