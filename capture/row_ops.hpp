// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Operations on rows of activations; `to_bf16` rounds where a model in bf16 does.

/// x += b, rounded once.
void add_into(std::span<float> x, std::span<const float> b, bool to_bf16);
/// Rounds to bf16.
void round_row(std::span<float> x);
/// out = w round(x / sqrt(mean(x^2) + eps)) (Zhang and Sennrich 2019); the mean in f32.
void rms_norm(std::span<const float> x, std::span<const float> w, float eps, bool to_bf16, float* out);
/// gate = round(silu(gate)) up.
void gate_into(std::span<float> gate, std::span<const float> up, bool to_bf16);
/// Rotates the pairs (j, j + half) of one head by the angles of its position.
void rotate_pairs(float* head, const float* cos, const float* sin, index_t half, bool to_bf16);

}  // namespace qkgeom
