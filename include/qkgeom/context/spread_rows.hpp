// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "qkgeom/context/context.hpp"

namespace qkgeom {

/// A context whose rows are those of some documents; other processes hold the others. `of_all(own)` are the values of
/// all processes. See mpi_context.
template <class C>
concept spreads_documents = context<C> && requires(C& ctx, const std::vector<std::int32_t>& own) {
  ctx.of_all(own);
};

/// A context that has the rows of all documents. What sorts or looks up single rows or pairs takes no other.
template <class C>
concept holds_all_rows = context<C> && !spreads_documents<C>;

}  // namespace qkgeom
