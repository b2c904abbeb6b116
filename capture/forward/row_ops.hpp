// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "capture/model/description.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Operations on rows of activations; `to_bf16` rounds where a model in bf16 does.

/// x += b, rounded once.
void add_into(std::span<float> x, std::span<const float> b, bool to_bf16);
/// Rounds to bf16.
void round_row(std::span<float> x);
/// x *= factor.
void scale_row(std::span<float> x, float factor, bool to_bf16);
/// out = the norm of x with weights w (Zhang and Sennrich 2019; `layer`: Ba et al. 2016, with biases b); in f32 inside.
void normalise(norm_kind kind, std::span<const float> x, std::span<const float> w, std::span<const float> b, float eps,
               bool to_bf16, float* out);
/// x = round(act(x)).
void activate(activation act, std::span<float> x, bool to_bf16);
/// gate = round(act(gate)) up.
void gate_into(activation act, std::span<float> gate, std::span<const float> up, bool to_bf16);

/// How the pairs of a head lie and are rounded.
struct rotation_style {
  bool interleaved = false;  ///< pairs (2j, 2j + 1); else (j, j + half)
  bool rounds = false;       ///< products are rounded to bf16
  bool rounds_result = false;
};
/// Rotates `half` pairs of one head by the angles of its position.
void rotate_pairs(float* head, const float* cos, const float* sin, index_t half, const rotation_style& style);

}  // namespace qkgeom
