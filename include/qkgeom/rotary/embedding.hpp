// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "qkgeom/core/config.hpp"
#include "qkgeom/core/scalar.hpp"

namespace qkgeom {

/// "Dynamic" scaling: a document longer than `context` uses the base theta (factor length / context - (factor - 1))^(d
/// / (d - 2)).
struct dynamic_scaling {
  double factor = 1;
  index_t context = 0;  ///< tokens
  bool operator==(const dynamic_scaling&) const = default;
};

/// "Longrope" scaling (Ding et al. 2024): a document longer than `context` uses other frequencies from its first token
/// on.
struct long_scaling {
  std::vector<float> inv_freq{};  ///< for long documents
  index_t context = 0;            ///< tokens
  bool operator==(const long_scaling&) const = default;
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
  bool operator==(const rope_description&) const = default;
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
inline std::vector<float> default_frequencies(double theta, index_t d) {
  std::vector<float> f;
  for (index_t i = 0; i < d; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(d);
    f.push_back(1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent))));
  }
  return f;
}

/// Stretches wavelengths (tokens) beyond original_context / low_freq_factor by `factor`, keeps those below
/// original_context / high_freq_factor, and blends between.
inline std::vector<float> llama3_frequencies(std::vector<float> inv_freq, const llama3_scaling& scaling) {
  const auto factor = static_cast<float>(scaling.factor);
  const auto low = static_cast<float>(scaling.low_freq_factor), high = static_cast<float>(scaling.high_freq_factor);
  const auto context = static_cast<float>(scaling.original_context);
  for (float& f : inv_freq) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / f;
    if (wavelength > context / low) {
      f /= factor;
    } else if (wavelength >= context / high && high > low) {
      const float smooth = (context / wavelength - low) / (high - low);
      f = (1.0f - smooth) * f / factor + smooth * f;
    }
  }
  return inv_freq;
}

inline std::vector<float> yarn_frequencies(double theta, index_t d, const yarn_scaling& scaling) {
  // Returns the dimension that makes `turns` turns within the original context.
  const auto dimension = [&](double turns) {
    return static_cast<double>(d) * std::log(scaling.original_context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = dimension(scaling.beta_fast), high = dimension(scaling.beta_slow);
  if (scaling.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(d - 1));
  if (low == high) high += 0.001;
  std::vector<float> f;
  for (index_t i = 0; i < d; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(d);
    const auto period = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    const float ramp = (static_cast<float>(i / 2) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
    f.push_back(1.0f / (static_cast<float>(scaling.factor) * period) * (1.0f - kept) + 1.0f / period * kept);
  }
  return f;
}

/// Returns the frequencies of dynamic scaling for a document of `tokens` tokens, of d rotated channels; theta is in
/// single precision like PyTorch's.
inline std::vector<float> dynamic_frequencies(double theta, const dynamic_scaling& scaling, index_t d, index_t tokens) {
  if (tokens <= scaling.context) return default_frequencies(theta, d);
  const auto factor = static_cast<float>(scaling.factor);
  const float share = factor * static_cast<float>(tokens) / static_cast<float>(scaling.context);
  const auto channels = static_cast<double>(d);
  const float growth = std::pow(share - (factor - 1.0f), static_cast<float>(channels / (channels - 2)));
  return default_frequencies(static_cast<double>(static_cast<float>(theta) * growth), d);
}

/// Returns the frequencies of any scaling for a document of `tokens` tokens.
inline std::vector<float> frequencies_of(const rope_description& rope, index_t tokens) {
  if (rope.longrope && tokens > rope.longrope->context) return rope.longrope->inv_freq;
  return rope.dynamic ? dynamic_frequencies(rope.theta, *rope.dynamic, rope.rotary_dim, tokens) : rope.inv_freq;
}

/// cos and sin of every position, (positions, rotary_dim / 2) each, in single precision like transformers: the angle is
/// the f32 product of position and frequency.
struct rope_table {
  index_t half = 0;
  std::vector<float> cos, sin;
};
/// Makes the table; `to_bf16` rounds it to bf16, as in a model that runs in bf16.
inline rope_table make_rope_table(const rope_description& rope, index_t positions, bool to_bf16) {
  rope_table table;
  table.half = rope.rotary_dim / 2;
  table.cos.reserve(positions * table.half);
  table.sin.reserve(positions * table.half);
  const auto factor = static_cast<float>(rope.attention_factor);
  const auto rounded = [&](double x) {
    const float y = static_cast<float>(x) * factor;
    return to_bf16 ? static_cast<float>(bf16::round(y)) : y;
  };
  const auto inv_freq = frequencies_of(rope, positions);
  for (index_t t = 0; t < positions; ++t)
    for (const float f : inv_freq) {
      const float angle = static_cast<float>(t) * f;
      table.cos.push_back(rounded(std::cos(static_cast<double>(angle))));
      table.sin.push_back(rounded(std::sin(static_cast<double>(angle))));
    }
  return table;
}

/// Makes the table that takes rows under the embedding `was` to `now`, of as many planes; neither depends on a
/// document's length.
inline rope_table make_rotation_table(const rope_description& was, const rope_description& now, index_t positions) {
  rope_table table{was.rotary_dim / 2, {}, {}};
  const double factor = now.attention_factor / was.attention_factor;
  for (index_t t = 0; t < positions; ++t)
    for (std::size_t p = 0; p < was.inv_freq.size(); ++p) {
      const float from = static_cast<float>(t) * was.inv_freq[p], to = static_cast<float>(t) * now.inv_freq[p];
      const double angle = static_cast<double>(to) - static_cast<double>(from);
      table.cos.push_back(static_cast<float>(factor * std::cos(angle)));
      table.sin.push_back(static_cast<float>(factor * std::sin(angle)));
    }
  return table;
}

}  // namespace qkgeom
