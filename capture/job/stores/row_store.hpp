// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "capture/forward/forward_pass.hpp"
#include "qkgeom/core/view.hpp"
#include "qkgeom/io/capture_writer.hpp"
#include "qkgeom/sampling/token_draw.hpp"

namespace qkgeom {

/// Rows of one shard: in each captured layer, the drawn tokens of the captured heads.
class row_store {
 public:
  /// Refers to `manifest`, which must outlive the store. `compute` is the element type of the rows: bf16 values are
  /// stored without loss. `same_positions`: keys at the positions of the queries. `skipped`: documents before the
  /// first, which count in the draws.
  row_store(const capture_manifest& manifest, token_sampler sampler, compute_type compute, bool same_positions = false,
            index_t skipped = 0);

  /// Draws the rows of a document in one layer; no rows if the layer is not captured.
  row_choice choose(index_t layer, std::int32_t document, index_t tokens) const;
  /// Adds rows that `choose` drew: q (rows, query heads, d), k (rows, key heads, d) of all heads of the model.
  void add(index_t layer, const row_choice& choice, tensor_view<const float> q, tensor_view<const float> k,
           std::int32_t document, std::span<const std::int32_t> ids);

  /// Returns the rows so far, valid until the next call.
  std::vector<layer_to_write> layers() const;
  void clear();

 private:
  struct side {
    std::vector<std::byte> data;
    std::vector<std::int32_t> position, document, token;
  };
  struct layer_rows {
    side q, k;
  };
  void add_side(side& rows, const std::vector<std::int32_t>& positions, tensor_view<const float> x,
                const std::vector<index_t>& heads, index_t layer, std::int32_t document,
                std::span<const std::int32_t> ids) const;

  const capture_manifest* manifest_;
  token_sampler sampler_;
  compute_type compute_;
  bool same_positions_;
  index_t skipped_;
  std::vector<layer_rows> rows_;  // as manifest_->layers
};

}  // namespace qkgeom
