// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "qkgeom/core/config.hpp"

namespace qkgeom {

/// "Dynamic" scaling: a document longer than `context` uses the base theta (factor length / context - (factor - 1))^(d
/// / (d - 2)).
struct dynamic_scaling {
  double factor = 1;
  index_t context = 0;  ///< tokens
};

/// "Longrope" scaling (Ding et al. 2024): a document longer than `context` uses other frequencies from its first token
/// on.
struct long_scaling {
  std::vector<float> inv_freq{};  ///< for long documents
  index_t context = 0;            ///< tokens
};

/// Rotary position embedding of a model.
struct rope_description {
  std::string type = "default";
  double theta = 10000;
  index_t rotary_dim = 0;         ///< number of rotated channels of a head
  index_t first = 0;              ///< the first rotated channel
  bool interleaved = false;       ///< pairs are (2j, 2j + 1); else (j, j + rotary_dim / 2), the "half" style
  bool exact = false;             ///< a model in bf16 rotates in f32 and rounds the result once,
  bool exact_table = false;       ///< with unrounded cos and sin
  double attention_factor = 1;    ///< multiplies cos and sin
  std::vector<float> inv_freq{};  ///< (rotary_dim / 2), radians per token
  std::optional<dynamic_scaling> dynamic{};
  std::optional<long_scaling> longrope{};
  index_t scaled_context = 0;  ///< tokens that the scaling stretches the embedding to; 0: no scaling

  /// Returns whether the frequencies depend on a document's length.
  bool by_length() const { return dynamic || longrope; }
  const char* style() const { return interleaved ? "interleaved" : "half"; }
};

/// The numbers of llama3 scaling (Dubey et al. 2024, section 3.4.2 and its reference implementation).
struct llama3_scaling {
  double factor, low_freq_factor, high_freq_factor, original_context;
};

/// The numbers of YaRN (Peng et al. 2023): dimensions with more than `beta_fast` turns within `original_context` keep
/// their frequency; frequencies with less than `beta_slow` turns are divided by `factor`.
struct yarn_scaling {
  double factor, original_context, beta_fast = 32, beta_slow = 1;
  bool truncate = true;  ///< the two bounds are whole dimensions
};

/// Returns theta^(-2 i / d), i = 0 .. d / 2 - 1, rounded as PyTorch rounds in single precision.
inline std::vector<float> default_frequencies(double theta, index_t d);

/// Stretches wavelengths (tokens) beyond original_context / low_freq_factor by `factor`, keeps those below
/// original_context / high_freq_factor, and blends between.
inline std::vector<float> llama3_frequencies(std::vector<float> inv_freq, const llama3_scaling& scaling);

inline std::vector<float> yarn_frequencies(double theta, index_t d, const yarn_scaling& scaling);

/// Returns the frequencies of dynamic scaling for a document of `tokens` tokens, of d rotated channels.
inline std::vector<float> dynamic_frequencies(double theta, const dynamic_scaling& scaling, index_t d, index_t tokens);

/// Returns the frequencies of any scaling for a document of `tokens` tokens.
inline std::vector<float> frequencies_of(const rope_description& rope, index_t tokens);

/// cos and sin of every position, (positions, rotary_dim / 2) each, in single precision like transformers: the angle is
/// the f32 product of position and frequency.
struct rope_table {
  index_t half = 0;
  std::vector<float> cos, sin;
};
/// Makes the table; `to_bf16` rounds it to bf16, as in a model that runs in bf16.
inline rope_table make_rope_table(const rope_description& rope, index_t positions, bool to_bf16);

}  // namespace qkgeom

#include "qkgeom/rotary/detail/embedding.hpp"
