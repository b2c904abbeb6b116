// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "capture/forward/forward_pass.hpp"
#include "qkgeom/core/view.hpp"
#include "qkgeom/io/capture_writer.hpp"
#include "qkgeom/sampling/tokens.hpp"

namespace qkgeom {

/// The rows of one shard: of each captured layer the drawn tokens of the captured heads.
class row_store {
 public:
  /// `manifest` must live longer. `compute` decides the element type: BF16 values are stored as such, without loss.
  /// `same_positions`: keys are taken where queries are.
  row_store(const capture_manifest& manifest, token_sampler sampler, compute_type compute, bool same_positions = false);

  /// The rows that are drawn of one layer of document `document`; none of a layer that is not captured.
  row_choice choose(index_t layer, std::int32_t document, index_t tokens) const;
  /// Takes them: q (rows, query heads, d), k (rows, key heads, d) of the model's heads.
  void add(index_t layer, const row_choice& choice, tensor_view<const float> q, tensor_view<const float> k,
           std::int32_t document, std::span<const std::int32_t> ids);

  /// All rows so far, valid until the next call.
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
  void add_side(side& to, const std::vector<std::int32_t>& positions, tensor_view<const float> x,
                const std::vector<index_t>& heads, index_t layer, std::int32_t document,
                std::span<const std::int32_t> ids) const;

  const capture_manifest* manifest_;
  token_sampler sampler_;
  compute_type compute_;
  bool same_positions_;
  std::vector<layer_rows> rows_;  // as manifest_->layers
};

}  // namespace qkgeom
