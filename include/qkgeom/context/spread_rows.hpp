// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <vector>

#include "qkgeom/context/context.hpp"

namespace qkgeom {

/// A context whose rows are those of some documents; other processes hold the others. `of_all(own)` are the values of
/// all processes; `on_all_rows(layer, f)` is what f gives on the rows of all. See mpi_context.
template <class C>
concept spreads_documents = context<C> && requires(C& ctx, const std::vector<std::int32_t>& own) {
  ctx.of_all(own);
};

}  // namespace qkgeom
