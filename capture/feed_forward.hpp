// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "capture/description.hpp"
#include "capture/layer_weights.hpp"
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

/// One expert's share of a token.
struct expert_choice {
  index_t token;
  float weight;
};

/// The tokens of each expert, by router logits (rows, experts), which are rounded with `rounds`.
std::vector<std::vector<expert_choice>> choose_experts(const experts_description& experts, index_t rows,
                                                       std::vector<float>& logits, bool rounds);

/// The same by the layer's mixture of experts.
void mixture_of_experts(const decoder_description& model, const layer_weights& weights, index_t rows, const float* x,
                        bool rounds, float* y, feed_forward_scratch& s);

}  // namespace qkgeom
