// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "capture/forward/layer_weights.hpp"
#include "capture/model/description.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Working memory of one thread's feed-forward.
struct feed_forward_scratch {
  std::vector<float> wide, rows, out, router;
  product_scratch product;
};

/// y (rows, hidden) = the layer's feed-forward of x (rows, hidden), bias included and, with `rounds`, rounded to bf16.
void feed_forward(const decoder_description& model, const feed_forward_weights& weights, index_t width, index_t rows,
                  const float* x, bool rounds, float* y, feed_forward_scratch& s);

/// The same by the layer's mixture of experts.
void mixture_of_experts(const decoder_description& model, const layer_weights& weights, index_t rows, const float* x,
                        bool rounds, float* y, feed_forward_scratch& s);

}  // namespace qkgeom
