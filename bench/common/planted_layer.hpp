// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <vector>

#include "qkgeom/core/head.hpp"
#include "qkgeom/core/random.hpp"
#include "qkgeom/planted/planted_head.hpp"

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
  const auto d = static_cast<std::size_t>(dim);
  const auto vector = [&](double length) {
    std::vector<double> v(d);
    for (double& x : v) x = length * stream.normal(next++) / std::sqrt(static_cast<double>(dim));
    return v;
  };
  const auto root = [&] {
    std::vector<double> f(d * d);
    for (std::size_t r = 0; r < d; ++r)
      for (std::size_t c = 0; c < d; ++c)
        f[r * d + c] = std::pow(0.1, static_cast<double>(c) / static_cast<double>(d)) * stream.normal(next++) /
                       std::sqrt(static_cast<double>(dim));
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
  const auto total = static_cast<std::size_t>(documents * rows), d = static_cast<std::size_t>(dim);
  const auto all = static_cast<std::size_t>(heads);
  layer.q.resize(total * all * d);
  layer.k.resize(total * all * d);
  for (std::size_t h = 0; h < all; ++h) {
    planted_head head = typical_head(dim, context, h + 1);
    head.documents = documents;
    head.rows = rows;
    head.seed = 7;  // one seed: the positions of a layer are those of all its heads
    auto planted = plant<bf16>(head);
    for (std::size_t i = 0; i < total; ++i)
      for (std::size_t c = 0; c < d; ++c) {
        layer.q[(i * all + h) * d + c] = planted.q[i * d + c];
        layer.k[(i * all + h) * d + c] = planted.k[i * d + c];
      }
    layer.q_position = std::move(planted.q_position);
    layer.q_document = std::move(planted.q_document);
    layer.k_position = std::move(planted.k_position);
    layer.k_document = std::move(planted.k_document);
  }
  return layer;
}

}  // namespace qkgeom::bench
