// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "qkgeom/context/context.hpp"
#include "qkgeom/core/head.hpp"
#include "qkgeom/plasticity/keys_by_document.hpp"

namespace qkgeom {

/// A layer that several calls of `plasticity_profile`, `bucket_table` or `empirical_profile` read: its keys are ordered
/// by document once, and a context that computes elsewhere (uploading_context) copies them once. Give those calls the
/// same context. The rows must not change meanwhile. Throws as `check_shapes` does. Use it from one thread at a time.
template <class T, memory_space S = memory_space::host>
class prepared_layer {
 public:
  template <context Context>
  prepared_layer(Context& ctx, layer_view<T, S> layer) : prepared_layer(std::move(layer)) {
    if constexpr (requires { ctx.keep(layer_.k); }) kept_ = ctx.keep(layer_.k);
  }

  /// Prepares for one call: nothing is copied beforehand.
  explicit prepared_layer(layer_view<T, S> layer) : layer_(std::move(layer)) { check_shapes(layer_); }

  const layer_view<T, S>& view() const { return layer_; }

  /// Returns the keys in the order of `order_keys_by_document`, which the first call computes.
  template <context Context>
  const keys_by_document& keys(Context& ctx, bool across_documents) {
    auto& keys = across_documents ? pooled_ : by_document_;
    if (!keys) keys = order_keys_by_document(ctx, layer_, across_documents);
    return *keys;
  }

 private:
  layer_view<T, S> layer_;
  std::shared_ptr<const void> kept_;
  std::optional<keys_by_document> by_document_, pooled_;
};

}  // namespace qkgeom
