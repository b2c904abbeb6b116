// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/stats/moments.hpp"

namespace qkgeom {

/// Result of a test whether queries depend on position, with documents as independent units.
struct drift_test_result {
  index_t documents = 0;
  double beta_pos = 0;                                               ///< |beta|, per token
  double standard_error = std::numeric_limits<double>::quiet_NaN();  ///< of beta_pos, over documents
  double p = std::numeric_limits<double>::quiet_NaN();  ///< null hypothesis: beta = 0; NaN for fewer than two documents
  double least_p = std::numeric_limits<double>::quiet_NaN();  ///< smallest p that these documents or flips can give
};

struct drift_test_options {
  index_t max_flips = 1999;  ///< sign patterns visited: all, or this many drawn ones
  std::uint64_t seed = 0;
};

/// Tests beta = 0 for each query head of a layer (docs/mathematics.md, Query model). Without drift a document's sum of
/// (q - mean)(t - mean t) is as likely as its negative, so p is the share of sign patterns over documents that give a
/// drift as large, at least 2^(1 - G) for G documents (`least_p`). The standard error is the sandwich over documents.
/// `moments` belong to exactly these rows. Needs rows on the host. Throws if the moments do not fit the layer.
template <context Context, class T>
std::vector<drift_test_result> drift_significance(Context& ctx, const layer_moments& moments,
                                                  const layer_view<T, memory_space::host>& layer,
                                                  const drift_test_options& options = {});

/// Does the same for one head.
template <context Context, class T>
drift_test_result drift_significance(Context&, const head_moments& moments,
                                     const head_view<T, memory_space::host>& head,
                                     const drift_test_options& options = {});

}  // namespace qkgeom

#include "qkgeom/model/detail/drift_significance.hpp"
