// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <vector>

#include "qkgeom/core/head.hpp"
#include "qkgeom/planted/heads.hpp"

namespace qkgeom::bench {

/// Rows (rows, heads, dim) of a layer. Query head h has its own key head h, which is the most work.
struct layer_rows {
  index_t heads = 0, dim = 0;
  std::vector<bf16> q, k;
  std::vector<std::int32_t> q_position, q_document, k_position, k_document;

  layer_view<bf16> view() const {
    const auto ints = [](const std::vector<std::int32_t>& x) {
      return vector_view<const std::int32_t>{x.data(), static_cast<index_t>(x.size())};
    };
    layer_view<bf16> v;
    v.q = packed_tensor(q.data(), static_cast<index_t>(q_position.size()), heads, dim);
    v.k = packed_tensor(k.data(), static_cast<index_t>(k_position.size()), heads, dim);
    v.q_position = ints(q_position);
    v.q_document = ints(q_document);
    v.k_position = ints(k_position);
    v.k_document = ints(k_document);
    for (index_t h = 0; h < heads; ++h) v.key_of_query.push_back(h);
    return v;
  }
};

/// A head like those of real models: a spectrum that falls by a factor of 100, a mean larger than the noise in a few
/// coordinates, drift over the context of about two standard deviations.
inline planted_head typical_head(index_t dim, index_t context, std::uint64_t seed) {
  planted_head head;
  head.dim = dim;
  head.context_length = context;
  const random_stream stream{.seed = seed, .document = 1u << 31, .use = draw::planted};
  std::uint64_t next = 0;
  const auto vector = [&](double length) {
    std::vector<double> v(dim);
    for (double& x : v) x = length * detail::normal(stream, next++) / std::sqrt(static_cast<double>(dim));
    return v;
  };
  const auto root = [&] {
    std::vector<double> f(dim * dim);
    for (index_t r = 0; r < dim; ++r)
      for (index_t c = 0; c < dim; ++c)
        f[r * dim + c] = std::pow(0.1, static_cast<double>(c) / static_cast<double>(dim)) *
                         detail::normal(stream, next++) / std::sqrt(static_cast<double>(dim));
    return f;
  };
  head.mean_q = vector(4.0);
  head.mean_k = vector(4.0);
  head.drift_q = vector(2.0 / static_cast<double>(context));
  head.drift_k = vector(2.0 / static_cast<double>(context));
  head.root_q = root();
  head.root_k = root();
  return head;
}

/// A layer of planted heads at the same positions, with `rows` queries and keys per document and head.
inline layer_rows plant_layer(index_t heads, index_t documents, index_t rows, index_t dim, index_t context) {
  layer_rows layer;
  layer.heads = heads;
  layer.dim = dim;
  const index_t total = documents * rows;
  layer.q.resize(total * heads * dim);
  layer.k.resize(total * heads * dim);
  for (index_t h = 0; h < heads; ++h) {
    planted_head head = typical_head(dim, context, h + 1);
    head.documents = documents;
    head.rows = rows;
    head.seed = 7;  // one seed: the positions of a layer are those of all its heads
    auto planted = plant<bf16>(head);
    for (index_t i = 0; i < total; ++i)
      for (index_t c = 0; c < dim; ++c) {
        layer.q[(i * heads + h) * dim + c] = planted.q[i * dim + c];
        layer.k[(i * heads + h) * dim + c] = planted.k[i * dim + c];
      }
    layer.q_position = std::move(planted.q_position);
    layer.q_document = std::move(planted.q_document);
    layer.k_position = std::move(planted.k_position);
    layer.k_document = std::move(planted.k_document);
  }
  return layer;
}

}  // namespace qkgeom::bench
