// SPDX-License-Identifier: MIT
// What tests of the mathematics begin with: a context of the CPU, planted heads and random numbers.
#pragma once

#include "qkgeom/backend/cpu_context.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/model/query_model.hpp"
#include "qkgeom/planted/planted_head.hpp"
#include "tests/common/testing.hpp"

namespace qkgeom::test {

/// The context of tests to which no other matters.
inline cpu_context ctx{{.threads = 2}};

/// The query model of a head over buckets of `width` tokens.
template <class Head>
query_model model_of(const Head& head, index_t width, index_t context_length,
                     covariance_kind kind = covariance_kind::diagonal) {
  return fit_queries(ctx, accumulate(ctx, head, uniform_buckets{width}, {.context_length = context_length}),
                     {.covariance = kind});
}

}  // namespace qkgeom::test
