// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

#include "qkgeom/context/needle_scores.hpp"
#include "qkgeom/core/view.hpp"

namespace qkgeom::linalg {

/// Returns the scores of a document for each query head: q (heads, queries, d), k (tokens, d).
QKGEOM_INLINE std::vector<needle_scores> score_needles(const needle_plan& plan, const needle_document& document,
                                                       const std::vector<float>& q, const std::vector<float>& k,
                                                       index_t d);

/// See cpu_context::score_needles.
template <class Context, class T>
void score_needles(Context& ctx, const tensor_view<const T>& q, const tensor_view<const T>& k,
                   const std::vector<index_t>& key_of_query, const needle_plan& plan,
                   const std::vector<needle_document>& documents, const needle_sink& each) {
  const auto add = [d = k.dim](std::vector<float>& to, const T* row) {
    for (index_t c = 0; c < d; ++c) to.push_back(static_cast<float>(row[c]));
  };
  ctx.for_each(static_cast<index_t>(documents.size()) * k.heads, [&](index_t i) {
    const auto& document = documents[i / k.heads];
    std::vector<float> of_q, of_k;
    std::vector<index_t> heads;
    for (index_t t = 0; t < document.tokens; ++t) add(of_k, k.head(i % k.heads).row(document.begin + t));
    for (index_t h = 0; h < std::ssize(key_of_query); ++h)
      if (key_of_query[h] == i % k.heads) {
        heads.push_back(h);
        for (const index_t row : document.row) add(of_q, q.head(h).row(row));
      }
    const auto found = score_needles(plan, document, of_q, of_k, k.dim);
    for (std::size_t j = 0; j < heads.size(); ++j) each(i / k.heads, heads[j], found[j]);
  });
}

}  // namespace qkgeom::linalg

#if !defined(QKGEOM_PRECOMPILED)
#include "qkgeom/linalg/detail/needles.hpp"
#endif
