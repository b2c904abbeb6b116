// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "capture/json_access.hpp"
#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// Rotary position embedding of a model. The pairs are (j, j + rotary_dim / 2): the "half" style.
struct rope_description {
  std::string type = "default";
  double theta = 10000;
  index_t rotary_dim = 0;         ///< the first that many channels of a head are rotated
  double attention_factor = 1;    ///< multiplies cos and sin
  std::vector<float> inv_freq{};  ///< (rotary_dim / 2), radians a token
};

/// The numbers of llama3 scaling (Dubey et al. 2024, section 3.4.2 and its reference implementation).
struct llama3_scaling {
  double factor, low_freq_factor, high_freq_factor, original_context;
};

/// theta^(-2 i / d), i = 0 .. d / 2 - 1, rounded as PyTorch rounds it in single precision.
std::vector<float> default_frequencies(double theta, index_t d);

/// Wavelengths (tokens) beyond original_context / low_freq_factor are stretched by `factor`, those below
/// original_context / high_freq_factor stay, those between are blended.
std::vector<float> llama3_frequencies(std::vector<float> inv_freq, const llama3_scaling& scaling);

/// Reads `rope_scaling`, else `rope_parameters`, and the top-level `rope_theta` of a config.json as transformers does.
/// Throws on a rope type other than default and llama3, by name.
rope_description read_rope(const json_fields& config, index_t head_dim, index_t context, double default_theta);

/// cos and sin of every position, (positions, rotary_dim / 2) each, in single precision like transformers: the angle is
/// the f32 product of position and frequency.
struct rope_table {
  index_t half = 0;
  std::vector<float> cos, sin;
};
/// `to_bf16`: the table is rounded to bf16, as a model that runs in bf16 does.
rope_table make_rope_table(const rope_description& rope, index_t positions, bool to_bf16);

}  // namespace qkgeom
